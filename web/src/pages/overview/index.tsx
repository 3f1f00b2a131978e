/** Is it healthy? What is late? What is coming? */
import { Link } from "@tanstack/react-router";
import { CircleCheck, TriangleAlert } from "lucide-react";

import { useFigures } from "../../api/figures";
import type { Stats } from "../../api/model";
import { useValue } from "../../api/store";
import { absolute } from "../../time/format";
import { common, overview } from "../../text";
import { capped, perSecond } from "../../text/format";
import { durationText } from "../../time/duration";
import { usePageTitle } from "../../shell/title";
import { ErrorPanel, Skeleton, Unknown } from "../../ui/Panel";
import { zone } from "../../ui/prefs";
import { Foreign, shorten } from "../../ui/text";
import { Countdown } from "../../ui/Time";
import { ForecastPanel } from "./Forecast";
import { LatenessPanel, RatePanel } from "./charts";
import { troubles } from "./problems";

export function OverviewPage() {
  usePageTitle(overview.title);
  const { stats, read } = useFigures();
  const why = read.error ? overview.notRead : common.loading;
  return (
    <>
      <header className="page-head">
        <h1>{overview.title}</h1>
        {stats && stats.broker.state !== "none" ? <p className="small">{overview.ofNode(stats.node_id)}</p> : null}
      </header>
      {read.error ? <ErrorPanel error={read.error} onRetry={() => void read.refetch()} right="reader" /> : null}
      {!stats && read.isPending ? <Skeleton lines={2} /> : <Problems stats={stats} />}
      <Figures stats={stats} />
      <div className="columns">
        <RatePanel stats={stats} history={read.data} why={why} />
        <LatenessPanel stats={stats} history={read.data} why={why} />
      </div>
      <ForecastPanel />
    </>
  );
}

function Problems({ stats }: { stats: Stats | undefined }) {
  const all = troubles(stats);
  const z = useValue(zone);
  if (all === undefined || !stats) return <p className="fine fine-unknown">{overview.unknownHealth}</p>;
  if (all.length === 0) {
    return (
      <p className="fine">
        <CircleCheck aria-hidden size={16} />
        {common.checkedAt(overview.fine, absolute(stats.now, z, "clock"))}
      </p>
    );
  }
  return (
    <section className="troubles" aria-label={overview.problems}>
      <ul>
        {all.map((t) => (
          <li key={t.id}>
            <TriangleAlert aria-hidden size={16} />
            <Link to={t.to} search={(t.search ?? {}) as never} params={(t.params ?? {}) as never}>
              <Foreign>{t.text}</Foreign>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Figures({ stats }: { stats: Stats | undefined }) {
  const rates = stats?.rates;
  const parts = rates ? [rates.closed, rates.skipped, rates.failed].filter((v): v is number => v !== undefined) : [];
  const expiries = parts.length > 0 ? parts.reduce((a, b) => a + b, 0) : undefined;
  const window = stats?.window_ms ? overview.figures.over(durationText(`${stats.window_ms}ms`)) : undefined;
  const oldest = stats?.oldest_overdue;
  return (
    <dl className="figures">
      <Figure name={overview.figures.expiries} value={expiries === undefined ? undefined : perSecond(expiries)} unit={overview.figures.perSecond} note={window} />
      <Figure name={overview.figures.registrations} value={rates?.registered === undefined ? undefined : perSecond(rates.registered)} unit={overview.figures.perSecond} note={window} />
      <div className="figure">
        <dt>{overview.figures.oldest}</dt>
        <dd>
          {oldest ? (
            <>
              <span className="figure-value late">
                <Countdown iso={oldest.due_at} open />
              </span>
              <Link to="/timers/$id" params={{ id: oldest.id }} className="figure-note">
                <Foreign>{shorten(oldest.key, 30)}</Foreign>
              </Link>
            </>
          ) : stats?.overdue?.count === 0 ? (
            <span className="figure-value">{overview.figures.none}</span>
          ) : (
            <span className="figure-value">
              <Unknown />
            </span>
          )}
        </dd>
      </div>
      <Figure name={overview.figures.backlog} value={capped(stats?.overdue)} note={stats?.scheduled ? overview.figures.pending(capped(stats.scheduled) ?? "") : undefined} />
    </dl>
  );
}

function Figure({ name, value, unit, note }: { name: string; value: string | undefined; unit?: string; note?: string }) {
  return (
    <div className="figure">
      <dt>{name}</dt>
      <dd>
        <span className="figure-value">{value ?? <Unknown />}</span>
        {value !== undefined && unit ? <span className="figure-unit"> {unit}</span> : null}
        {note ? <span className="figure-note">{note}</span> : null}
      </dd>
    </div>
  );
}
