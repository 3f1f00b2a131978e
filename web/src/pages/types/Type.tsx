/** One type: its rights as sentences, its schema, its revisions, its limits. */
import { Link, Outlet, useParams } from "@tanstack/react-router";

import type { TimerType } from "../../api/model";
import { useType } from "../../api/queries";
import { durationText } from "../../time/duration";
import { types as words } from "../../text";
import { usePageTitle } from "../../shell/title";
import { GrantList } from "../../ui/Grants";
import { JsonView } from "../../ui/Json";
import { Loaded, Panel } from "../../ui/Panel";
import { Fact, Facts, Mono } from "../../ui/text";
import { At } from "../../ui/Time";

export function useTypeName(): string {
  return (useParams({ strict: false }) as { type: string }).type;
}

export function TypeLayout() {
  const type = useTypeName();
  usePageTitle(type);
  const read = useType(type);
  return (
    <Loaded query={read} lines={6}>
      {(t) => (
        <>
          <header className="page-head">
            <h1 className="mono">{t.name}</h1>
            <div className="page-tools">
              <Link className="button" to="/timers" search={{ type: t.name } as never}>
                {words.timersOf}
              </Link>
              <Link className="button" to="/compensations" search={{ type: t.name } as never}>
                {words.dead}
              </Link>
            </div>
          </header>
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

export function TypeDetail() {
  const type = useTypeName();
  const read = useType(type);
  return <Loaded query={read}>{(t) => <Detail type={t} />}</Loaded>;
}

function Detail({ type }: { type: TimerType }) {
  const retry = type.retry;
  return (
    <div className="columns">
      <div>
        <Panel title={words.grants}>
          <GrantList grants={type.grants ?? []} none={words.noGrants} />
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
