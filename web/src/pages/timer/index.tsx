/** What happened, why, what can I do? */
import { useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { TimerDialog } from "../../actions/TimerDialog";
import { allowed, TIMER_ACTIONS, type TimerAction } from "../../actions/rules";
import { onLive } from "../../api/live";
import type { Timer } from "../../api/model";
import { useTimer } from "../../api/queries";
import { actions, states, timer as words } from "../../text";
import { usePageTitle } from "../../shell/title";
import { CopyButton } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { JsonView } from "../../ui/Json";
import { Loaded, Panel } from "../../ui/Panel";
import { TimerBadge } from "../../ui/State";
import { Fact, Facts, Foreign, Mono, shorten } from "../../ui/text";
import { Ago, At, Countdown } from "../../ui/Time";
import { OfTimer } from "./Compensations";
import { Timeline } from "./Timeline";
import { Why } from "./Why";

export function TimerPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const read = useTimer(id);
  usePageTitle(read.data ? shorten(read.data.key, 40) : words.id);
  useLive(id, read.data?.version);
  return <Loaded query={read} lines={8}>{(timer) => <One timer={timer} />}</Loaded>;
}

/** Reads anew when the stream tells of this timer, or had to leave some out. */
function useLive(id: string, version: number | undefined): void {
  const client = useQueryClient();
  useEffect(() => {
    const again = () => {
      void client.invalidateQueries({ queryKey: ["timer", id] });
      void client.invalidateQueries({ queryKey: ["compensations", "timer", id] });
    };
    const offTimers = onLive("timers", ({ changed, dropped }) => {
      const mine = changed.find((t) => t.id === id);
      if (mine ? mine.version > (version ?? 0) : dropped > 0) again();
    });
    const offCompensations = onLive("compensations", ({ changed }) => {
      if (changed.some((c) => (c as { timer_id?: string }).timer_id === id)) again();
    });
    return () => {
      offTimers();
      offCompensations();
    };
  }, [client, id, version]);
}

function One({ timer }: { timer: Timer }) {
  const [action, setAction] = useState<TimerAction>();
  const open = timer.state === "scheduled" || timer.state === "firing";
  const runsApart = timer.run_at !== undefined && timer.run_at !== timer.due_at;
  return (
    <>
      <header className="page-head timer-head">
        <div className="timer-name">
          <h1>
            <Foreign className="mono">{timer.key}</Foreign>
          </h1>
          <CopyButton bare label={words.copyKey} text={timer.key} />
          <TimerBadge timer={timer} />
        </div>
        <dl className="head-facts">
          <div>
            <dt>{words.type}</dt>
            <dd>
              <Link to="/types/$type" params={{ type: timer.type }}>
                {timer.type}
              </Link>
            </dd>
          </div>
          <div>
            <dt>{words.due}</dt>
            <dd>
              {open ? (
                <>
                  <Countdown iso={timer.due_at} open />
                  {" · "}
                </>
              ) : null}
              <At iso={timer.due_at} full quiet />
            </dd>
          </div>
          {runsApart ? (
            <div>
              <dt title={words.runAtHint}>{timer.state === "firing" ? words.leaseUntil : words.runAt}</dt>
              <dd>
                <Countdown iso={timer.run_at} open={false} /> · <At iso={timer.run_at} full quiet />
              </dd>
            </div>
          ) : null}
          {timer.settled_at ? (
            <div>
              <dt>{words.settled}</dt>
              <dd>
                <Ago iso={timer.settled_at} /> · <At iso={timer.settled_at} full quiet />
              </dd>
            </div>
          ) : null}
        </dl>
        <div className="page-tools">
          {TIMER_ACTIONS.map((name) => (
            <Guarded key={name} right={name} because={allowed(name, timer.state) ? undefined : actions.off.state(actions.names[name], states[timer.state])} onPress={() => setAction(name)}>
              {actions.names[name]}
            </Guarded>
          ))}
        </div>
      </header>
      <div className="timer-columns">
        <div>
          <Why timer={timer} />
          <Timeline timer={timer} />
        </div>
        <aside>
          <Panel title={words.payload}>
            <JsonView value={timer.payload} label={words.payload} />
          </Panel>
          {timer.outcome !== undefined ? (
            <Panel title={words.outcome}>
              <JsonView value={timer.outcome} label={words.outcome} />
            </Panel>
          ) : null}
          <OfTimer id={timer.id} />
          <Panel title={words.facts}>
            <Facts>
              <Fact name={words.id}>
                <Mono>{timer.id}</Mono> <CopyButton bare label={words.copyId} text={timer.id} />
              </Fact>
              <Fact name={words.registered}>
                <At iso={timer.created_at} full />
              </Fact>
              <Fact name={words.attempt}>{String(timer.attempt)}</Fact>
              <Fact name={words.version}>{String(timer.version)}</Fact>
              <Fact name={words.revision}>
                {String(timer.revision)}
                {timer.runs && timer.runs.why !== "active" ? ` · ${words.runs[timer.runs.why]}` : ""}
                {timer.runs && timer.runs.revision !== timer.revision ? ` · ${words.runsOther(String(timer.runs.revision))}` : ""}
              </Fact>
            </Facts>
            <Labels labels={timer.labels ?? {}} />
          </Panel>
        </aside>
      </div>
      {action ? <TimerDialog action={action} timer={timer} onClose={() => setAction(undefined)} /> : null}
    </>
  );
}

function Labels({ labels }: { labels: Record<string, string> }) {
  const all = Object.entries(labels);
  return (
    <>
      <h3>{words.labels}</h3>
      {all.length === 0 ? (
        <p className="quiet">{words.noLabels}</p>
      ) : (
        <ul className="labels">
          {all.map(([name, value]) => (
            <li key={name}>
              <Link to="/timers" search={{ label: `${name}=${value}` } as never}>
                <Foreign>{`${name}=${value}`}</Foreign>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
