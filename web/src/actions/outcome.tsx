/** Why an action was not done, with both sides where somebody else was first. */
import type { Timer, TimerSummary } from "../api/model";
import { Problem } from "../api/problem";
import type { Right } from "../api/rights";
import { actions, states } from "../text";
import { ErrorPanel } from "../ui/Panel";
import { Badge, TimerBadge } from "../ui/State";
import { Foreign } from "../ui/text";
import { Ago, At } from "../ui/Time";

/** The fields that a person decides by. */
const FIELDS = ["state", "due_at", "run_at", "attempt", "revision", "version"] as const;

export function Changed({ before, after }: { before: TimerSummary; after: TimerSummary }) {
  const show = (field: (typeof FIELDS)[number], timer: TimerSummary) => {
    const value = timer[field];
    if (value === undefined) return "–";
    if (field === "due_at" || field === "run_at") return <At iso={String(value)} full />;
    if (field === "state") return <Badge look={timer.state} />;
    return String(value);
  };
  return (
    <div className="notice" role="alert">
      <h3>{actions.again}</h3>
      <p>{actions.againBody}</p>
      <table className="plain">
        <thead>
          <tr>
            <td />
            <th scope="col">{actions.was}</th>
            <th scope="col">{actions.is}</th>
          </tr>
        </thead>
        <tbody>
          {FIELDS.filter((f) => before[f] !== after[f]).map((f) => (
            <tr key={f}>
              <th scope="row">{f.replace("_", " ")}</th>
              <td>{show(f, before)}</td>
              <td>{show(f, after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function TooLate({ verb, winner }: { verb: string; winner: Timer }) {
  const reason = reasonOf(winner);
  return (
    <div className="notice" role="alert">
      <h3>{actions.tooLate}</h3>
      <dl className="sides">
        <dt>{actions.winner}</dt>
        <dd>
          <TimerBadge timer={winner} /> <Ago iso={winner.settled_at} /> {reason ? <Foreign>{reason}</Foreign> : null}
        </dd>
        <dt>{actions.yours}</dt>
        <dd>
          <s>{verb}</s>
        </dd>
      </dl>
      <p>{actions.tooLateBody(states[winner.state])}</p>
    </div>
  );
}

/** A reason or code that an outcome carries, in the words of who wrote it. */
export function reasonOf(timer: Timer): string | undefined {
  const outcome = timer.outcome;
  if (!outcome || typeof outcome !== "object" || Array.isArray(outcome)) return undefined;
  const from = outcome as Record<string, unknown>;
  for (const name of ["reason", "message", "code"]) {
    if (typeof from[name] === "string" && from[name]) return from[name];
  }
  return undefined;
}

export function Refused({ error, verb, right }: { error: unknown; verb: string; right: Right }) {
  if (error instanceof Problem && error.code === "too_late" && error.body.timer) {
    return <TooLate verb={verb} winner={error.body.timer} />;
  }
  if (error instanceof Problem && error.code === "firing") {
    return (
      <div className="notice" role="alert">
        <h3>{actions.firing}</h3>
        <p>{actions.firingBody}</p>
      </div>
    );
  }
  return <ErrorPanel error={error} right={right} />;
}
