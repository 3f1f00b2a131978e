import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";

import { RedriveDialog } from "../../actions/RedriveDialog";
import type { Compensation } from "../../api/model";
import { useCompensation } from "../../api/queries";
import { actions, compensations as words } from "../../text";
import { usePageTitle } from "../../shell/title";
import { CopyButton } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { JsonView } from "../../ui/Json";
import { Loaded, Panel, Unknown } from "../../ui/Panel";
import { Badge } from "../../ui/State";
import { Fact, Facts, Foreign, Mono, shorten } from "../../ui/text";
import { Ago, At, Countdown } from "../../ui/Time";
import { hostOf } from "./groups";
import { useLiveOne } from "./useLive";
import { useOnlyHosts } from "./useOnlyHosts";

export function CompensationPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const read = useCompensation(id);
  useLiveOne(id);
  usePageTitle(read.data?.kind ?? words.title);
  return <Loaded query={read} lines={6}>{(row) => <One row={row} />}</Loaded>;
}

function One({ row }: { row: Compensation }) {
  const [redriving, setRedriving] = useState(false);
  const host = hostOf(row, useOnlyHosts());
  return (
    <>
      <header className="page-head">
        <div className="timer-name">
          <h1>{row.kind}</h1>
          <Badge look={row.state} />
        </div>
        <div className="page-tools">
          <Guarded right="redrive" kind={row.state === "dead" ? "primary" : "plain"} because={row.state === "dead" ? undefined : actions.off.onlyDead} onPress={() => setRedriving(true)}>
            {actions.names.redrive}
          </Guarded>
        </div>
      </header>
      <div className="columns">
        <div>
          <Panel title={words.lastError}>
            {row.last_error ? (
              <p className="event-failure">
                <code>{row.last_error.class}</code> {row.last_error.code ? <code>{row.last_error.code}</code> : null} <Foreign>{row.last_error.message ?? ""}</Foreign>
              </p>
            ) : (
              <p className="quiet">{words.noError}</p>
            )}
          </Panel>
          <Panel title={words.payload}>
            <JsonView value={row.payload} label={words.payload} />
          </Panel>
          {row.result === undefined ? null : (
            <Panel title={words.result}>
              <JsonView value={row.result} label={words.result} />
            </Panel>
          )}
        </div>
        <Panel title={words.facts}>
          <Facts>
            <Fact name={words.timer}>
              <Link to="/timers/$id" params={{ id: row.timer_id }}>
                <Foreign className="mono">{shorten(row.timer_key ?? row.timer_id, 300)}</Foreign>
              </Link>
            </Fact>
            {row.type ? (
              <Fact name={words.filters.type}>
                <Link to="/types/$type" params={{ type: row.type }}>
                  {row.type}
                </Link>
              </Fact>
            ) : null}
            <Fact name={words.columns.host}>{host ? <Mono>{host}</Mono> : <Unknown why={words.group.noHostHint} />}</Fact>
            <Fact name={words.attempts}>{String(row.attempt)}</Fact>
            {row.run_at ? (
              <Fact name={words.nextRun}>
                <Countdown iso={row.run_at} open={false} /> · <At iso={row.run_at} quiet />
              </Fact>
            ) : null}
            <Fact name={words.created}>
              <At iso={row.created_at} full />
            </Fact>
            {row.settled_at ? (
              <Fact name={words.settled}>
                <Ago iso={row.settled_at} />
              </Fact>
            ) : null}
            <Fact name={words.key} hint={words.keyHint}>
              <Mono>{row.id}</Mono> <CopyButton bare label={`${words.key}`} text={row.id} />
            </Fact>
          </Facts>
        </Panel>
      </div>
      {redriving ? <RedriveDialog rows={[row]} what={row.kind} onClose={() => setRedriving(false)} /> : null}
    </>
  );
}
