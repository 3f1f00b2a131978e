/** Resolve, cancel, reschedule, fire and retry of one timer. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { call } from "../api/http";
import type { Timer, TimerSummary } from "../api/model";
import { isCode, isStatus, Problem } from "../api/problem";
import { summary, timerPath, useRevisions, useType } from "../api/queries";
import { useValue } from "../api/store";
import { serverNow } from "../time/clock";
import { absolute } from "../time/format";
import { toField } from "../time/input";
import { actions } from "../text";
import { GrantList } from "../ui/Grants";
import { zone } from "../ui/prefs";
import { shorten } from "../ui/text";
import { toast } from "../ui/toast";
import { tookIn } from "./cache";
import { cli } from "./command";
import { Frame, Reason } from "./frame";
import { Changed, Refused } from "./outcome";
import { isFinal, type TimerAction } from "./rules";
import { WhenFields, whenRequest, type When } from "./When";

type Props = { action: TimerAction; timer: TimerSummary; onClose: () => void };

export function TimerDialog({ action, timer, onClose }: Props) {
  const client = useQueryClient();
  const z = useValue(zone);
  const [seen, setSeen] = useState(timer);
  const [before, setBefore] = useState<TimerSummary>();
  const [reason, setReason] = useState("");
  const [when, setWhen] = useState<When>({ how: "in", at: toField(timer.due_at, z), delay: "30m" });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const key = shorten(timer.key);
  const due = action === "reschedule" ? whenRequest(when, z, serverNow()) : undefined;
  const body = { ...(reason.trim() ? { reason: reason.trim() } : {}), ...(due?.body ?? {}) };
  const path = `${timerPath(timer.id)}/${action}`;

  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { data } = await call<Timer>(path, { method: "POST", body, ifMatch: seen.version });
      tookIn(client, data);
      toast(actions.done[action](key));
      onClose();
    } catch (failure) {
      if (isStatus(failure, 412)) {
        await look();
      } else {
        setError(failure);
        if (isStatus(failure, 409)) void client.invalidateQueries({ queryKey: ["timer", timer.id] });
      }
    } finally {
      setBusy(false);
    }
  };

  /** What it is now; the dialog stays, with the reason as written, and asks again. */
  const look = async () => {
    try {
      const { data } = await call<Timer>(timerPath(timer.id));
      tookIn(client, data);
      // What has ended meanwhile cannot be asked for again: the winner is shown at once.
      if (isFinal(data.state)) return setError(new Problem(409, { code: "too_late", timer: data }));
      setBefore(seen);
      setSeen(summary(data));
    } catch (failure) {
      setError(failure);
    }
  };

  const text = actions[action];
  return (
    <Frame
      title={actions.titles[action](key)}
      will={action === "fire" || action === "retry" ? actions[action].will(seen.type, String(seen.runs?.revision ?? seen.revision ?? "?")) : (text.will as string)}
      wont={action === "resolve" || action === "cancel" ? actions[action].wont(key) : (text.wont as string)}
      verb={actions.verbs[action]}
      right={action}
      missing={action === "reschedule" && !due ? actions.reschedule.bad : undefined}
      danger={action === "cancel" || action === "fire"}
      busy={busy}
      finished={isCode(error, "too_late")}
      call={{ method: "POST", path, body, ifMatch: seen.version }}
      cli={commandOf(action, seen, reason.trim(), due?.body)}
      notice={
        <>
          {before ? <Changed before={before} after={seen} /> : null}
          {error ? <Refused error={error} verb={actions.names[action]} right={action} /> : null}
        </>
      }
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <Reason value={reason} onChange={setReason} />
      {action === "reschedule" ? (
        <>
          <WhenFields value={when} onChange={setWhen} />
          <dl className="sides">
            <dt>{actions.reschedule.old}</dt>
            <dd>
              <Both iso={seen.due_at} />
            </dd>
            <dt>{actions.reschedule.next}</dt>
            <dd>
              {due ? <Both iso={new Date(due.ms).toISOString()} /> : "–"}
              {due && due.ms <= serverNow() ? <strong> {actions.reschedule.past}</strong> : null}
            </dd>
          </dl>
        </>
      ) : null}
      {action === "fire" || action === "retry" ? <Effects timer={seen} /> : null}
      <p className="small">{actions.ifMatch(String(seen.version))}</p>
    </Frame>
  );
}

/** An instant in both zones. */
function Both({ iso }: { iso: string }) {
  const utc = absolute(iso, "utc", "seconds");
  const local = absolute(iso, "local", "seconds");
  return utc === local ? <>{utc}</> : (
    <>
      {local}
      <br />
      {utc}
    </>
  );
}

/** Of the revision that the timer runs, which need not be the active one. */
function Effects({ timer }: { timer: TimerSummary }) {
  const read = useType(timer.type);
  const revisions = useRevisions(timer.type);
  const runs = timer.runs?.revision ?? timer.revision;
  const grants = revisions.data?.items.find((r) => r.number === runs)?.grants ?? read.data?.grants;
  return (
    <div className="field">
      <p className="label">{actions.fire.effects}</p>
      {read.data && grants ? <GrantList grants={grants} revoked={read.data.revoked} none={actions.fire.noEffects} /> : <p className="quiet">{actions.fire.unknownEffects}</p>}
    </div>
  );
}

function commandOf(action: TimerAction, timer: TimerSummary, reason: string, due: { due_at?: string; delay?: string } | undefined): string | undefined {
  const words = ["timer", action, timer.id];
  if (due?.due_at) words.push("--due-at", due.due_at);
  if (due?.delay) words.push("--delay", due.delay);
  if (reason) words.push("--reason", reason);
  words.push("--if-version", String(timer.version));
  return cli(...words);
}
