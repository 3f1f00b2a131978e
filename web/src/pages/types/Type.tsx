/** One type: its rights as sentences, its schema, its revisions, its limits. */
import { Link, Outlet, useParams } from "@tanstack/react-router";

import { useState } from "react";

import { GrantDialog } from "../../actions/GrantDialog";
import { PauseDialog, ResumeDialog } from "../../actions/PauseDialog";
import type { Pause, TimerType } from "../../api/model";
import { useType } from "../../api/queries";
import { durationText } from "../../time/duration";
import { actions, types as words } from "../../text";
import { usePageTitle } from "../../shell/title";
import { GrantList, grantKey } from "../../ui/Grants";
import { Guarded } from "../../ui/Guarded";
import { JsonView } from "../../ui/Json";
import { Loaded, Panel } from "../../ui/Panel";
import { Fact, Facts, Foreign, Mono } from "../../ui/text";
import { At } from "../../ui/Time";

export function useTypeName(): string {
  return (useParams({ strict: false }) as { type: string }).type;
}

export function TypeLayout() {
  const type = useTypeName();
  usePageTitle(type);
  const read = useType(type);
  const [dialog, setDialog] = useState<"pause" | "resume">();
  return (
    <Loaded query={read} lines={6}>
      {(t) => (
        <>
          <header className="page-head">
            <h1 className="mono">{t.name}</h1>
            <div className="page-tools">
              {t.paused ? (
                <Guarded right="resume_type" kind="primary" onPress={() => setDialog("resume")}>
                  {actions.names.resume}
                </Guarded>
              ) : (
                <Guarded right="pause_type" onPress={() => setDialog("pause")}>
                  {actions.names.pause}
                </Guarded>
              )}
              <Link className="button" to="/timers" search={{ type: t.name } as never}>
                {words.timersOf}
              </Link>
              <Link className="button" to="/compensations" search={{ type: t.name } as never}>
                {words.dead}
              </Link>
            </div>
          </header>
          {t.paused ? <Paused pause={t.paused} /> : null}
          {dialog === "pause" ? <PauseDialog type={t} onClose={() => setDialog(undefined)} /> : null}
          {dialog === "resume" ? <ResumeDialog type={t} onClose={() => setDialog(undefined)} /> : null}
          <nav className="tabs" aria-label={t.name}>
            <Link to="/types/$type" params={{ type }} activeOptions={{ exact: true }}>
              {words.tabs.detail}
            </Link>
            <Link to="/types/$type/schema" params={{ type }}>
              {words.tabs.schema}
            </Link>
            <Link to="/types/$type/revisions" params={{ type }}>
              {words.tabs.revisions}
            </Link>
            <Link to="/types/$type/dry-run" params={{ type }}>
              {words.tabs["dry-run"]}
            </Link>
          </nav>
          <Outlet />
        </>
      )}
    </Loaded>
  );
}

/** That its timers wait, why, and until when. */
function Paused({ pause }: { pause: Pause }) {
  return (
    <div className="notice" role="status">
      <p>
        <strong>{words.pausedBy[pause.scope]}</strong> <Foreign>{pause.reason}</Foreign>
      </p>
      <p className="small">
        {words.pausedSince} <At iso={pause.since} />, <Foreign>{pause.by}</Foreign>
        {pause.until ? (
          <>
            {" "}
            · {words.pausedUntil} <At iso={pause.until} />
          </>
        ) : null}
      </p>
    </div>
  );
}

export function TypeDetail() {
  const type = useTypeName();
  const read = useType(type);
  return <Loaded query={read}>{(t) => <Detail type={t} />}</Loaded>;
}

/** What it was granted, and what was taken from it: also from revisions before this one. */
function Rights({ type }: { type: TimerType }) {
  const [chosen, setChosen] = useState<{ grant: string; how: "revoke" | "restore" }>();
  const revoked = type.revoked ?? [];
  const held = new Set(type.grants.map(grantKey));
  const all = [...type.grants, ...revoked.filter((grant) => !held.has(grantKey(grant)))];
  const after = (grant: string, isRevoked: boolean) => {
    const how = isRevoked ? "restore" : "revoke";
    return (
      <Guarded right="revoke" onPress={() => setChosen({ grant, how })}>
        {actions.verbs[how]}
      </Guarded>
    );
  };
  return (
    <>
      <GrantList grants={all} none={words.noGrants} revoked={revoked} after={after} />
      {chosen ? <GrantDialog type={type} grant={chosen.grant} how={chosen.how} onClose={() => setChosen(undefined)} /> : null}
    </>
  );
}

function Detail({ type }: { type: TimerType }) {
  const retry = type.retry;
  return (
    <div className="columns">
      <div>
        <Panel title={words.grants}>
          <Rights type={type} />
          {type.pure === undefined ? null : <p className="small">{type.pure ? words.pure : words.effectful}</p>}
        </Panel>
        <Panel title={words.config}>
          <JsonView value={type.config} label={words.config} />
        </Panel>
      </div>
      <div>
        <Panel title={words.limits}>
          <Facts>
            <Fact name={words.concurrency}>{type.concurrency === undefined ? words.standard : String(type.concurrency)}</Fact>
            <Fact name={words.rate}>{type.rate === undefined ? words.standard : String(type.rate)}</Fact>
            <Fact name={words.defaultDelay}>{type.default_delay ? durationText(type.default_delay) : "–"}</Fact>
            <Fact name={words.retry}>{retry ? `${retry.attempts}, ${durationText(retry.initial)} to ${durationText(retry.max)}` : words.standard}</Fact>
          </Facts>
        </Panel>
        <Panel title={words.plugin}>
          <Facts>
            {type.plugin ? (
              <Fact name={words.plugin}>
                {type.plugin.name} {type.plugin.version}
              </Fact>
            ) : null}
            <Fact name={words.revisions.number}>{String(type.revision)}</Fact>
            <Fact name={words.digest}>
              <Mono>{type.digest}</Mono>
            </Fact>
            <Fact name={words.updated}>
              <At iso={type.updated_at} />
            </Fact>
          </Facts>
        </Panel>
      </div>
    </div>
  );
}

export function TypeSchema() {
  const type = useTypeName();
  const read = useType(type);
  return (
    <Loaded query={read}>
      {(t) => (
        <Panel title={words.payloadSchema}>{t.payload_schema === undefined ? <p className="quiet">{words.noSchema}</p> : <JsonView value={t.payload_schema} label={words.payloadSchema} />}</Panel>
      )}
    </Loaded>
  );
}
