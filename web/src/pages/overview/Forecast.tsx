/** What comes due in the next hour, by minute and type; each minute opens its timers. */
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import type { Forecast } from "../../api/model";
import { isStatus } from "../../api/problem";
import { useForecast } from "../../api/queries";
import { useValue } from "../../api/store";
import { absolute, cell } from "../../time/format";
import { common, overview } from "../../text";
import { count } from "../../text/format";
import { checkedAt, ErrorPanel, NothingWrong, Panel, Skeleton } from "../../ui/Panel";
import { zone } from "../../ui/prefs";
import { useZoneName } from "../../ui/Time";

/** Types with a colour of their own; the others share one. */
const SHOWN = 5;
const COLORS = ["--scheduled", "--retrying", "--firing", "--overdue", "--resolved", "--skipped"];

type Minute = { from: string; until: string; parts: number[]; total: number; capped: boolean; known: boolean };

export function minutes(forecast: Forecast): { names: string[]; rows: Minute[] } {
  const sum = (counts: number[]) => counts.reduce((a, b) => a + b, 0);
  const series = [...forecast.series].sort((a, b) => sum(b.counts) - sum(a.counts));
  const names = series.slice(0, SHOWN).map((s) => s.type);
  const others = series.slice(SHOWN);
  if (others.length > 0) names.push(`+${others.length}`);
  const from = Date.parse(forecast.from);
  const steps = Math.round((Date.parse(forecast.until) - from) / forecast.step_ms);
  const until = forecast.counted_until ? Date.parse(forecast.counted_until) : Infinity;
  const rows = Array.from({ length: Math.max(0, Math.min(steps, 120)) }, (_, n): Minute => {
    const parts = series.slice(0, SHOWN).map((s) => s.counts[n] ?? 0);
    if (others.length > 0) parts.push(sum(others.map((s) => s.counts[n] ?? 0)));
    const at = from + n * forecast.step_ms;
    return {
      from: new Date(at).toISOString(),
      until: new Date(at + forecast.step_ms).toISOString(),
      parts,
      total: sum(parts),
      capped: forecast.cap !== undefined && series.some((s) => (s.counts[n] ?? 0) >= (forecast.cap ?? Infinity)),
      known: at < until,
    };
  });
  return { names, rows };
}

export function ForecastPanel() {
  const read = useForecast(undefined);
  const absent = isStatus(read.error, 404);
  return (
    <Panel title={overview.forecast.title}>
      {read.data ? (
        <Bars forecast={read.data} atMs={checkedAt(read.dataUpdatedAt)} />
      ) : absent ? (
        <p className="quiet">{overview.absent}</p>
      ) : read.error ? (
        <ErrorPanel error={read.error} onRetry={() => void read.refetch()} right="reader" />
      ) : (
        <Skeleton />
      )}
    </Panel>
  );
}

function Bars({ forecast, atMs }: { forecast: Forecast; atMs: number }) {
  const z = useValue(zone);
  const zoneName = useZoneName();
  const { names, rows } = minutes(forecast);
  const max = Math.max(1, ...rows.map((r) => r.total));
  const n = (row: Minute) => `${count(row.total)}${row.capped ? "+" : ""}`;
  const search = (row: Minute) => ({ state: "scheduled", due: `${row.from}..${row.until}` }) as never;
  if (names.length === 0) return <NothingWrong text={overview.forecast.none} atMs={atMs} />;
  return (
    <figure className="chart">
      <div className="bars" role="group" aria-label={overview.forecast.sum}>
        {rows.map((row, i) => (
          <Fragment key={row.from}>
            <Link
              to="/timers"
              search={search(row)}
              className={row.known ? "bar" : "bar bar-unknown"}
              tabIndex={-1}
              aria-label={overview.forecast.open(absolute(row.from, z, "clock"), row.known ? n(row) : common.unknown)}
              data-tip={`${absolute(row.from, z, "clock")}  ${row.known ? n(row) : common.unknown}`}
              data-edge={i > rows.length * 0.75 ? "" : undefined}
            >
              {row.parts.map((part, k) =>
                part > 0 ? <span key={names[k]} data-color={COLORS[k]} style={{ height: `${(part / max) * 100}%` }} /> : null,
              )}
            </Link>
          </Fragment>
        ))}
      </div>
      <div className="bars-axis" aria-hidden>
        {rows.filter((_, i) => i % 15 === 0).map((row) => (
          <span key={row.from}>{absolute(row.from, z, "minute")}</span>
        ))}
      </div>
      <figcaption>
        <ul className="legend">
          {names.map((name, k) => (
            <li key={name}>
              <span className="swatch" data-color={COLORS[k]} />
              {name}
            </li>
          ))}
        </ul>
        {forecast.partial && forecast.counted_until ? <p className="small">{overview.forecast.partial(absolute(forecast.counted_until, z, "clock"))}</p> : null}
        <details>
          <summary>{common.asTable}</summary>
          <div className="scroll-x" tabIndex={0} role="group" aria-label={common.tableOf(overview.forecast.title)}>
            <table className="plain">
              <thead>
                <tr>
                  <th scope="col">{overview.table.at(zoneName)}</th>
                  <th scope="col" className="num">{overview.forecast.total}</th>
                  {names.map((name) => (
                    <th key={name} scope="col" className="num">
                      {name}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.from}>
                    <th scope="row">
                      <Link to="/timers" search={search(row)}>
                        {cell(row.from, z, atMs)}
                      </Link>
                    </th>
                    <td className="num">{row.known ? n(row) : common.unknown}</td>
                    {row.parts.map((part, k) => (
                      <td key={names[k]} className="num">
                        {row.known ? count(part) : "–"}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      </figcaption>
    </figure>
  );
}
