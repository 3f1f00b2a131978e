import { useMemo } from "react";
import { Link } from "@tanstack/react-router";

import { points } from "../../api/live";
import type { HistoryPoint, RateName, Stats } from "../../api/model";
import { useValue } from "../../api/store";
import { cell } from "../../time/format";
import { common, overview } from "../../text";
import { count, millis, perSecond } from "../../text/format";
import { Chart } from "../../ui/Chart";
import { Panel, Unknown } from "../../ui/Panel";
import { zone } from "../../ui/prefs";
import { useZoneName } from "../../ui/Time";
import { historyPoints, joined, present } from "./series";

/** `why` says why there is nothing to show. */
type Props = { stats: Stats | undefined; history: Stats | undefined; why: string };

const GOAL_MS = 50;
/** Rows of a chart's table: the latest. */
const TABLE_ROWS = 60;

const COLORS: Record<RateName, string> = {
  registered: "--scheduled",
  closed: "--closed",
  skipped: "--skipped",
  resolved: "--resolved",
  cancelled: "--edge",
  failed: "--failed",
  retried: "--retrying",
};
const DASHES: Partial<Record<RateName, number[]>> = { registered: [8, 4], skipped: [2, 3], cancelled: [1, 4], retried: [6, 3, 1, 3] };

function usePoints(history: Stats | undefined): HistoryPoint[] {
  const live = useValue(points);
  return useMemo(() => joined(historyPoints(history), live), [history, live]);
}

export function RatePanel({ stats, history, why }: Props) {
  const all = usePoints(history);
  const z = useValue(zone);
  const zoneName = useZoneName();
  const names = present(all);
  const shown: RateName[] = names.length > 0 ? names : ["closed"];
  const times = useMemo(() => all.map((p) => Date.parse(p.at) / 1000), [all]);
  const lines = useMemo(
    () => shown.map((name) => ({ label: overview.outcomes[name] ?? name, color: COLORS[name], dash: DASHES[name], values: all.map((p) => p[name] ?? null) })),
    [all, shown.join()],
  );
  return (
    <Panel title={overview.rate.title} aside={<span className="small">{overview.rate.unit}</span>}>
      {all.length < 2 ? (
        <p className="quiet">{stats ? overview.collecting : why}</p>
      ) : (
        <Chart
          label={overview.rate.sum}
          times={times}
          lines={lines}
          format={perSecond}
          table={
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">{overview.table.at(zoneName)}</th>
                  {shown.map((name) => (
                    <th key={name} scope="col">
                      {overview.outcomes[name]}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {all.slice(-TABLE_ROWS).reverse().map((p) => (
                  <tr key={p.at}>
                    <th scope="row">{cell(p.at, z, Date.now())}</th>
                    {shown.map((name) => (
                      <td key={name}>{p[name] === undefined ? "–" : perSecond(p[name])}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          }
        />
      )}
    </Panel>
  );
}

export function LatenessPanel({ stats, history, why }: Props) {
  const all = usePoints(history);
  const z = useValue(zone);
  const zoneName = useZoneName();
  const known = all.some((p) => p.lateness_p99_ms !== undefined);
  const times = useMemo(() => all.map((p) => Date.parse(p.at) / 1000), [all]);
  const lines = useMemo(
    () => [
      { label: overview.lateness.p50, color: "--scheduled", values: all.map((p) => p.lateness_p50_ms ?? null) },
      { label: overview.lateness.p99, color: "--overdue", dash: [6, 3], values: all.map((p) => p.lateness_p99_ms ?? null) },
    ],
    [all],
  );
  return (
    <Panel title={overview.lateness.title}>
      {known && all.length >= 2 ? (
        <Chart
          label={overview.lateness.sum}
          times={times}
          lines={lines}
          format={millis}
          goal={{ value: GOAL_MS, label: overview.lateness.goal }}
          table={
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">{overview.table.at(zoneName)}</th>
                  <th scope="col">{overview.lateness.p50}</th>
                  <th scope="col">{overview.lateness.p99}</th>
                </tr>
              </thead>
              <tbody>
                {all.slice(-TABLE_ROWS).reverse().map((p) => (
                  <tr key={p.at}>
                    <th scope="row">{cell(p.at, z, Date.now())}</th>
                    <td>{p.lateness_p50_ms === undefined ? "–" : millis(p.lateness_p50_ms)}</td>
                    <td>{p.lateness_p99_ms === undefined ? "–" : millis(p.lateness_p99_ms)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          }
        />
      ) : null}
      <ByType stats={stats} why={why} />
    </Panel>
  );
}

function ByType({ stats, why }: { stats: Stats | undefined; why: string }) {
  const fired = stats?.types?.filter((t) => t.lateness_p99_ms !== undefined);
  if (!stats?.types) return <p className="quiet">{stats ? common.unknown : why}</p>;
  if (!fired || fired.length === 0) return <p className="quiet">{overview.lateness.none}</p>;
  const rows = [...fired].sort((a, b) => (b.lateness_p99_ms ?? 0) - (a.lateness_p99_ms ?? 0)).slice(0, 10);
  return (
    <div className="scroll-x">
      <table className="plain">
        <caption>{overview.lateness.byType}</caption>
        <thead>
          <tr>
            <th scope="col">{overview.lateness.type}</th>
            <th scope="col" className="num">{overview.lateness.p50}</th>
            <th scope="col" className="num">{overview.lateness.p99}</th>
            <th scope="col" className="num">{overview.lateness.fired}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((t) => {
            const late = (t.lateness_p99_ms ?? 0) > GOAL_MS;
            return (
              <tr key={t.type}>
                <th scope="row">
                  <Link to="/types/$type" params={{ type: t.type }}>
                    {t.type}
                  </Link>
                </th>
                <td className="num">{t.lateness_p50_ms === undefined ? <Unknown /> : millis(t.lateness_p50_ms)}</td>
                <td className={late ? "num late" : "num"}>
                  {t.lateness_p99_ms === undefined ? <Unknown /> : millis(t.lateness_p99_ms)}
                  <span className="offscreen"> {late ? overview.lateness.beyond : overview.lateness.within}</span>
                </td>
                <td className="num">{t.fired === undefined ? common.unknown : count(t.fired)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
