/** Where the search box looks: an id, an exact key, then a key prefix where the server can. */
import { get } from "../api/http";
import type { Page, Timer, TimerSummary } from "../api/model";
import { isStatus } from "../api/problem";
import { summary } from "../api/queries";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MOST = 8;

export type Found = { timers: TimerSummary[]; more: boolean };

export async function find(text: string, signal: AbortSignal): Promise<Found> {
  const found = new Map<string, TimerSummary>();
  if (UUID.test(text)) {
    try {
      const timer = summary(await get<Timer>(`/v1/timers/${encodeURIComponent(text)}`, undefined, signal));
      found.set(timer.id, timer);
    } catch (error) {
      if (!isStatus(error, 404)) throw error;
    }
  }
  const exact = await get<Page<Timer>>("/v1/timers", { key: text, limit: MOST }, signal);
  for (const timer of exact.items) found.set(timer.id, summary(timer));
  if (found.size < MOST) {
    for (const timer of await byPrefix(text, signal)) found.set(timer.id, timer);
  }
  const all = [...found.values()];
  return { timers: all.slice(0, MOST), more: all.length > MOST || exact.next_cursor !== undefined };
}

/** Set once a server has said that it knows no prefixes, so that it is not asked again. */
let noPrefix = false;

async function byPrefix(text: string, signal: AbortSignal): Promise<TimerSummary[]> {
  if (noPrefix) return [];
  try {
    const page = await get<Page<Timer>>("/v1/timers", { key_prefix: text, limit: MOST }, signal);
    return page.items.map(summary);
  } catch (error) {
    if (!isStatus(error, 400)) throw error;
    noPrefix = true;
    return [];
  }
}
