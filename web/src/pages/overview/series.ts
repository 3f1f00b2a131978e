/** Points for the charts: the server's history, then what the stream brought. */
import type { HistoryPoint, RateName, Stats } from "../../api/model";
import { MAX_POINTS } from "../../api/live";

const RATES: RateName[] = ["registered", "closed", "skipped", "resolved", "cancelled", "failed", "retried"];

/** The history counts in steps; the charts show a second's mean. */
export function historyPoints(stats: Stats | undefined): HistoryPoint[] {
  if (!stats?.history) return [];
  const perStep = (stats.history_step_ms ?? 1000) / 1000;
  return stats.history.map((p) => {
    const point: HistoryPoint = { ...p };
    for (const name of RATES) {
      const n = p[name];
      if (n !== undefined) point[name] = n / perStep;
    }
    return point;
  });
}

/** One line of time: the live points replace the history from their first on. */
export function joined(history: readonly HistoryPoint[], live: readonly HistoryPoint[]): HistoryPoint[] {
  const from = live[0] ? Date.parse(live[0].at) : Infinity;
  return [...history.filter((p) => Date.parse(p.at) < from), ...live].slice(-MAX_POINTS);
}

export function present(points: readonly HistoryPoint[]): RateName[] {
  return RATES.filter((name) => points.some((p) => (p[name] ?? 0) > 0));
}
