/** What is wrong now, from the server's figures, each with the list that shows it. */
import type { Stats } from "../../api/model";
import { overview } from "../../text";
import { capped, count } from "../../text/format";

export type Trouble = { id: string; text: string; to: string; search?: Record<string, string>; params?: Record<string, string> };

/** Types and hosts that are named, each. A pause of everything pauses every type. */
const NAMED = 5;

/** Undefined where the server does not say: unknown is not "none". */
export function troubles(stats: Stats | undefined): Trouble[] | undefined {
  if (!stats) return undefined;
  const all: Trouble[] = [];
  let known = false;
  const counted = (c: { count: number; capped?: boolean } | undefined, make: (n: string) => Trouble) => {
    if (!c) return;
    known = true;
    if (c.count > 0) all.push(make(capped(c) ?? ""));
  };
  counted(stats.overdue, (n) => ({ id: "overdue", text: overview.overdue(n), to: "/timers", search: { state: "overdue" } }));
  counted(stats.failed, (n) => ({ id: "failed", text: overview.failed(n), to: "/timers", search: { state: "failed" } }));
  counted(stats.compensations?.dead, (n) => ({ id: "dead", text: overview.dead(n), to: "/compensations" }));
  const open = (stats.breakers ?? []).filter((b) => b.state !== "closed");
  for (const b of open.slice(0, NAMED)) {
    all.push({ id: `breaker ${b.host}`, text: overview.breaker(b.host), to: "/compensations", search: { state: "pending", host: b.host } });
  }
  if (open.length > NAMED) all.push({ id: "breakers", text: overview.breakerMore(count(open.length - NAMED)), to: "/compensations", search: { state: "pending" } });
  const paused = (stats.types ?? []).filter((t) => t.paused);
  for (const t of paused.slice(0, NAMED)) {
    all.push({ id: `paused ${t.type}`, text: overview.paused(t.type), to: "/types/$type", params: { type: t.type } });
  }
  if (paused.length > NAMED) all.push({ id: "paused", text: overview.pausedMore(count(paused.length - NAMED)), to: "/types" });
  if (stats.broker?.state === "away") all.push({ id: "broker", text: overview.broker, to: "/" });
  return known || all.length > 0 ? all : undefined;
}
