/** All that happened, newest first: who, in which attempt, by which plugin, and with what result. */
import { Link } from "@tanstack/react-router";

import type { Json } from "../../api/lossless";
import type { Timer, TimerEvent } from "../../api/model";
import { MAX_EVENTS, useTimerEvents } from "../../api/queries";
import { length } from "../../time/duration";
import { timer as words } from "../../text";
import { count, millis } from "../../text/format";
import { JsonView } from "../../ui/Json";
import { Loaded, Panel } from "../../ui/Panel";
import { Badge } from "../../ui/State";
import { Foreign, Mono, shortDigest } from "../../ui/text";
import { Ago, At } from "../../ui/Time";


export function Timeline({ timer }: { timer: Timer }) {
  const read = useTimerEvents(timer.id);
  return (
    <Panel title={words.timeline.title} aside={<span className="small">{words.timeline.newest}</span>}>
      <Loaded query={read} lines={5}>
        {({ items, more }) => (
          <>
            {more ? <p className="small">{words.timeline.capped(count(MAX_EVENTS))}</p> : null}
            {items.length === 0 ? <p className="quiet">{words.timeline.none}</p> : null}
            <ol className="timeline">
              {[...items].sort((a, b) => Number(b.seq) - Number(a.seq)).map((event) => (
                <Row key={event.seq} event={event} timer={timer} />
              ))}
            </ol>
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** How late a decision was against the due time. */
function lateness(event: TimerEvent, dueAt: string): string | undefined {
  if (!event.trigger || !["closed", "skipped", "failed", "retry_scheduled"].includes(event.kind)) return undefined;
  const ms = Date.parse(event.at) - Date.parse(dueAt);
  if (!(ms >= 0)) return undefined;
  return words.timeline.lateBy(ms < 10_000 ? millis(ms) : length(ms));
}

type Said = { reason?: string; failure?: { class?: string; code?: string; message?: string }; logs: { level: string; message: string }[]; rest?: Json };

/** The parts of an event's detail that have words of their own, and the rest. */
function said(detail: Json | undefined): Said {
  if (!detail || typeof detail !== "object" || Array.isArray(detail)) return detail === undefined || detail === null ? { logs: [] } : { logs: [], rest: detail };
  const { reason, note, failure, logs, ...rest } = detail as { [name: string]: Json };
  const why = typeof reason === "string" && reason ? reason : typeof note === "string" && note ? note : undefined;
  return {
    reason: why,
    failure: failure && typeof failure === "object" ? (failure as Said["failure"]) : undefined,
    logs: Array.isArray(logs) ? (logs as unknown as Said["logs"]) : [],
    rest: Object.keys(rest).length > 0 ? rest : undefined,
  };
}

function Row({ event, timer }: { event: TimerEvent; timer: Timer }) {
  const { reason, failure, logs, rest } = said(event.detail);
  const late = lateness(event, timer.due_at);
  return (
    <li className={`event event-${event.kind}`}>
      <div className="event-head">
        <strong>{words.timeline.kinds[event.kind] ?? event.kind.replaceAll("_", " ")}</strong>
        {event.state_after && event.state_after !== event.state_before ? <Badge look={event.state_after} /> : null}
        <span className="event-time">
          <Ago iso={event.at} />
        </span>
      </div>
      <p className="event-line">
        <At iso={event.at} full quiet /> · {words.timeline.by} <Foreign>{event.actor}</Foreign> · {words.timeline.attempt(String(event.attempt))} · {words.timeline.version(String(event.version))}
        {event.trigger && !event.kind.startsWith("compensation_") ? ` · ${words.timeline.trigger(event.trigger)}` : ""}
        {late ? ` · ${late}` : ""}
      </p>
      {event.digest ? (
        <p className="event-line">
          {words.timeline.plugin}{" "}
          <Link to="/types/$type/revisions" params={{ type: timer.type }} title={event.digest}>
            <Mono>{shortDigest(event.digest)}</Mono>
          </Link>
        </p>
      ) : null}
      {reason ? (
        <p>
          <span className="small">{words.timeline.reason}:</span> <Foreign>{reason}</Foreign>
        </p>
      ) : null}
      {failure ? (
        <p className="event-failure">
          {failure.class ? <code>{failure.class}</code> : null} {failure.code ? <code>{failure.code}</code> : null} <Foreign>{failure.message ?? ""}</Foreign>
        </p>
      ) : null}
      {logs.length > 0 ? (
        <ol className="logs" aria-label={words.timeline.logs}>
          {logs.map((line, n) => (
            <li key={n}>
              <code>{line.level}</code> <Foreign>{line.message}</Foreign>
            </li>
          ))}
        </ol>
      ) : null}
      {rest !== undefined ? (
        <details>
          <summary>{words.timeline.detail}</summary>
          <JsonView value={rest} label={words.timeline.detail} />
        </details>
      ) : null}
    </li>
  );
}
