/** Why it has not fired, or how it ended: one sentence, then each check in order, with its evidence and what to do. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleHelp, Clock, OctagonX } from "lucide-react";
import { useEffect } from "react";

import type { Check, Timer } from "../../api/model";
import type { Json } from "../../api/lossless";
import { isStatus } from "../../api/problem";
import { useExplanation } from "../../api/queries";
import { useNow } from "../../time/clock";
import { numberText } from "../../api/lossless";
import { meanings, timer as words } from "../../text";
import { reasonOf } from "../../actions/outcome";
import { isFinal } from "../../actions/rules";
import { Loaded, Panel } from "../../ui/Panel";
import { lookOf } from "../../ui/State";
import { Foreign } from "../../ui/text";
import { At } from "../../ui/Time";

export function Why({ timer }: { timer: Timer }) {
  const final = isFinal(timer.state);
  const read = useExplanation(timer.id, !final);
  const client = useQueryClient();
  // Another node may have moved it, of which the stream of this one does not tell.
  const isBehind = (read.data?.version ?? 0) > timer.version;
  useEffect(() => {
    if (isBehind) void client.invalidateQueries({ queryKey: ["timer", timer.id] });
  }, [isBehind, client, timer.id]);
  if (final) return <Settled timer={timer} />;
  if (isStatus(read.error, 404, 405) && !read.data) return <Known timer={timer} />;
  return (
    <Panel title={words.why.title} className="why">
      <Loaded query={read} lines={3}>
        {(explanation) => (
          <>
            <p className="why-sentence">
              <Foreign>{explanation.sentence}</Foreign>
            </p>
            <ol className="checks">
              {explanation.checks.map((check) => (
                <One key={check.code} check={check} type={timer.type} said={explanation.checks.length === 1} />
              ))}
            </ol>
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** What ends by itself is no fault: it is said, and not in red. */
const CALM: ReadonlySet<Check["code"]> = new Set(["not_due", "claimed", "waiting_to_retry"]);

/** `said`: its sentence is the heading already. */
function One({ check, type, said }: { check: Check; type: string; said: boolean }) {
  const waits = check.status === "blocking" && CALM.has(check.code);
  const Icon = waits ? Clock : check.status === "pass" ? CircleCheck : check.status === "blocking" ? OctagonX : CircleHelp;
  const evidence = Object.entries(check.evidence ?? {});
  return (
    <li className={`why-check why-check-${check.status}${waits ? " why-check-waits" : ""}`}>
      <Icon aria-hidden size={16} />
      <div>
        <p>
          <strong>{words.checks[check.code] ?? check.code.replaceAll("_", " ")}</strong> <span className="why-check-status">{waits ? words.why.waits : words.why[check.status]}</span>
        </p>
        <p>
          {said ? null : <Foreign>{check.sentence}</Foreign>}
          {check.until ? (
            <span className="quiet">
              {" · "}
              {words.why.until} <At iso={check.until} />
            </span>
          ) : null}
        </p>
        {evidence.length > 0 ? (
          <dl className="evidence" aria-label={words.why.evidence}>
            {evidence.map(([name, value]) => (
              <div key={name}>
                <dt>{name.replaceAll("_", " ")}</dt>
                <dd>
                  <Foreign>{plain(value)}</Foreign>
                </dd>
              </div>
            ))}
          </dl>
        ) : null}
        {check.fix ? (
          <p className="fix">
            <span className="small">{words.why.fix}:</span> <Foreign>{check.fix.sentence}</Foreign>
            {check.fix.action === "resume" && check.evidence?.["scope"] === "type" ? (
              <>
                {" "}
                <Link to="/types/$type" params={{ type }}>
                  {words.why.openType}
                </Link>
              </>
            ) : null}
          </p>
        ) : null}
      </div>
    </li>
  );
}

function plain(value: Json): string {
  if (typeof value === "string") return value;
  return numberText(value) ?? JSON.stringify(value);
}

function Settled({ timer }: { timer: Timer }) {
  const reason = reasonOf(timer);
  return (
    <Panel title={words.why.settledTitle} className="why">
      <p className="why-sentence">
        {meanings[timer.state]}.{reason ? " " : null}
        {reason ? <Foreign>{reason}</Foreign> : null}
      </p>
    </Panel>
  );
}

/** For a server that cannot explain: only what the row itself says. */
function Known({ timer }: { timer: Timer }) {
  const now = useNow();
  const look = lookOf(timer, now);
  const local = words.why.local;
  const sentence = look === "retrying" ? local.retrying(String(timer.attempt)) : look === "overdue" ? local.overdue : look === "firing" ? local.firing : look === "failed" ? local.failed : local.not_due;
  const reason = reasonOf(timer);
  return (
    <Panel title={words.why.title} className="why">
      <p className="small">{words.why.absent}</p>
      <p className="why-sentence">
        {sentence} {reason ? <Foreign>{reason}</Foreign> : null}
      </p>
    </Panel>
  );
}
