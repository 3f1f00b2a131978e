/** A state's badge: text first, shape second, colour third. */
import { AlarmClock, Ban, Check, Clock, Lock, OctagonX, Play, RotateCw, SkipForward, type LucideIcon } from "lucide-react";

import type { CompensationState, State, TimerSummary } from "../api/model";
import { useNow } from "../time/clock";
import { overdueBy } from "../time/format";
import { attempt, meanings, states } from "../text";

export type Look = State | "overdue" | "retrying" | Exclude<CompensationState, never>;

const ICONS: Record<Look, LucideIcon> = {
  scheduled: Clock,
  overdue: AlarmClock,
  retrying: RotateCw,
  firing: Play,
  resolved: Check,
  closed: Lock,
  skipped: SkipForward,
  cancelled: Ban,
  failed: OctagonX,
  pending: Clock,
  running: Play,
  done: Check,
  dead: OctagonX,
};

/** A timer that fires on time is late by milliseconds; that is not yet news. */
export const GRACE_MS = 1000;

/** What to call a timer: two looks are derived from its row. */
export function lookOf(timer: Pick<TimerSummary, "state" | "due_at" | "run_at" | "attempt">, nowMs: number): Look {
  if (timer.state !== "scheduled") return timer.state;
  const runsLater = timer.run_at !== undefined && Date.parse(timer.run_at) > nowMs - GRACE_MS;
  if (timer.attempt > 1 && runsLater) return "retrying";
  return Date.parse(timer.due_at) <= nowMs - GRACE_MS ? "overdue" : "scheduled";
}

export function Badge({ look, extra }: { look: Look; extra?: string }) {
  const Icon = ICONS[look];
  return (
    <span className={`badge badge-${look}`} title={meanings[look]}>
      <Icon aria-hidden size={14} />
      <span className="badge-text">{states[look]}</span>
      {extra ? <span className="badge-extra">{extra}</span> : null}
    </span>
  );
}

export function TimerBadge({ timer }: { timer: Pick<TimerSummary, "state" | "due_at" | "run_at" | "attempt"> }) {
  const now = useNow();
  const look = lookOf(timer, now);
  const extra = look === "overdue" ? overdueBy(timer.due_at, now) : look === "retrying" ? attempt(timer.attempt) : undefined;
  return <Badge look={look} extra={extra} />;
}
