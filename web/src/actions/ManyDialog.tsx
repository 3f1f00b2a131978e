/** One action on the selected timers, one after the other, each with the version that was seen. */
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { call } from "../api/http";
import type { Timer, TimerSummary } from "../api/model";
import { Problem } from "../api/problem";
import { timerPath } from "../api/queries";
import { useValue } from "../api/store";
import { serverNow } from "../time/clock";
import { actions } from "../text";
import { count, plural } from "../text/format";
import { zone } from "../ui/prefs";
import { Mono, shorten } from "../ui/text";
import { tookIn } from "./cache";
import { Frame, Reason } from "./frame";
import type { TimerAction } from "./rules";
import { WhenFields, whenRequest, type When } from "./When";

type Result = { timer: TimerSummary; how: "ok" | "changed" | "failed"; why?: string };
type Props = { action: TimerAction; timers: TimerSummary[]; onClose: () => void; onDone: () => void };

const LISTED = 5;

export function ManyDialog({ action, timers, onClose, onDone }: Props) {
  const client = useQueryClient();
  const z = useValue(zone);
  const [reason, setReason] = useState("");
  const [when, setWhen] = useState<When>({ how: "in", at: "", delay: "30m" });
  const [results, setResults] = useState<Result[]>([]);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);

  const due = action === "reschedule" ? whenRequest(when, z, serverNow()) : undefined;
  const body = { ...(reason.trim() ? { reason: reason.trim() } : {}), ...(due?.body ?? {}) };
  const finished = !busy && results.length > 0;
  const first = timers[0];

  const submit = async () => {
    setBusy(true);
    for (const timer of timers) {
      if (stopped.current) break;
      const result = await one(timer);
      setResults((before) => [...before, result]);
    }
    setBusy(false);
  };

  const one = async (timer: TimerSummary): Promise<Result> => {
    try {
      const { data } = await call<Timer>(`${timerPath(timer.id)}/${action}`, { method: "POST", body, ifMatch: timer.version });
      tookIn(client, data);
      return { timer, how: "ok" };
    } catch (error) {
      const moved = error instanceof Problem && (error.status === 412 || error.status === 409);
      return { timer, how: moved ? "changed" : "failed", why: error instanceof Error ? error.message : String(error) };
    }
  };

  const close = () => {
    stopped.current = true;
    if (results.length > 0) onDone();
    onClose();
  };

  return (
    <Frame
      title={actions.many.title(actions.names[action], plural(timers.length, "timer", "timers"))}
      will={actions.many.will}
      wont={action === "resolve" || action === "cancel" ? actions[action].wont(actions.many.they) : actions[action].wont}
      verb={actions.verbs[action]}
      finished={finished}
      right={action}
      missing={action === "reschedule" && !due ? actions.reschedule.bad : undefined}
      danger={action === "cancel"}
      busy={busy}
      call={{ method: "POST", path: `${timerPath(first?.id ?? "")}/${action}`, body, ifMatch: first?.version }}
      notice={results.length > 0 ? <Results results={results} all={timers.length} /> : null}
      onSubmit={() => void submit()}
      onClose={close}
    >
      <Reason value={reason} onChange={setReason} />
      {action === "reschedule" ? <WhenFields value={when} onChange={setWhen} /> : null}
      <div className="field">
        <p className="label">{actions.many.list}</p>
        <ul className="keys">
          {timers.slice(0, LISTED).map((t) => (
            <li key={t.id}>
              <Mono>{shorten(t.key)}</Mono>
            </li>
          ))}
          {timers.length > LISTED ? <li>{actions.many.andMore(count(timers.length - LISTED))}</li> : null}
        </ul>
      </div>
    </Frame>
  );
}

function Results({ results, all }: { results: Result[]; all: number }) {
  const groups = [
    ["ok", actions.many.ok],
    ["changed", actions.many.changed],
    ["failed", actions.many.failed],
  ] as const;
  return (
    <div className="notice" role="status">
      <p>{actions.many.progress(count(results.length), count(all))}</p>
      <dl className="sides">
        {groups.map(([how, name]) => {
          const those = results.filter((r) => r.how === how);
          if (those.length === 0) return null;
          return (
            <div key={how}>
              <dt>
                {name}: {count(those.length)}
              </dt>
              <dd>
                <ul className="keys">
                  {those.slice(0, 20).map((r) => (
                    <li key={r.timer.id}>
                      <a href={`/timers/${r.timer.id}`}>
                        <Mono>{shorten(r.timer.key)}</Mono>
                      </a>
                      {r.why ? <span className="small"> {r.why}</span> : null}
                    </li>
                  ))}
                </ul>
              </dd>
            </div>
          );
        })}
      </dl>
    </div>
  );
}
