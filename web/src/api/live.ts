/**
 * What the server tells by itself: one stream per tab, closed while the tab is hidden, opened again with a fresh snapshot.
 *
 *   off ─► connecting ─► open ──(cut)──► waiting ─► connecting …      hidden, paused, crowded: closed, nothing retried
 *                          └ 404, 501 ─► absent: the server has none, pages are refreshed by hand
 *
 * `crowded`: other windows of this browser have the places for streams (`places.ts`).
 */
import { observe } from "../time/clock";
import { backoffMs } from "./backoff";
import { answered, unanswered } from "./health";
import type { HistoryPoint, Stats, TimerSummary } from "./model";
import { enlist } from "./places";
import { Problem } from "./problem";
import { namespace, token } from "./session";
import { value } from "./store";
import { readStream, type StreamEvent } from "./stream";

/** Points kept for the charts: ten minutes of seconds. */
export const MAX_POINTS = 600;

export type LiveState = "off" | "connecting" | "open" | "waiting" | "hidden" | "paused" | "crowded" | "absent";

export type TimerChanges = { changed: TimerSummary[]; dropped: number };
export type CompensationChanges = { changed: { id: string; state: string; attempt?: number }[]; dropped: number };

export const liveState = value<LiveState>("off");
export const latestStats = value<Stats | undefined>(undefined);
export const points = value<readonly HistoryPoint[]>([]);

type Listeners = { timers: (c: TimerChanges) => void; compensations: (c: CompensationChanges) => void; types: () => void; fresh: () => void };
const listeners: { [K in keyof Listeners]: Set<Listeners[K]> } = {
  timers: new Set(),
  compensations: new Set(),
  types: new Set(),
  fresh: new Set(),
};

export function onLive<K extends keyof Listeners>(topic: K, listener: Listeners[K]): () => void {
  listeners[topic].add(listener);
  return () => {
    listeners[topic].delete(listener);
  };
}

export function addPoint(all: readonly HistoryPoint[], stats: Stats): readonly HistoryPoint[] {
  if (!stats.rates) return all;
  const last = all.at(-1);
  if (last && Date.parse(last.at) >= Date.parse(stats.now)) return all;
  const point: HistoryPoint = { at: stats.now, ...stats.rates, ...lateness(stats) };
  return [...all, point].slice(-MAX_POINTS);
}

/** The worst type's, since percentiles of different types cannot be added. */
function lateness(stats: Stats): Pick<HistoryPoint, "lateness_p50_ms" | "lateness_p99_ms"> {
  const worst = (pick: (t: NonNullable<Stats["types"]>[number]) => number | undefined) => {
    const known = (stats.types ?? []).map(pick).filter((v): v is number => v !== undefined);
    return known.length > 0 ? Math.max(...known) : undefined;
  };
  return { lateness_p50_ms: worst((t) => t.lateness_p50_ms), lateness_p99_ms: worst((t) => t.lateness_p99_ms) };
}

function take({ event, data }: StreamEvent): void {
  answered();
  const body = data as { now?: string } | null;
  observe(body?.now);
  switch (event) {
    case "stats": {
      const stats = data as unknown as Stats;
      latestStats.set(stats);
      points.set(addPoint(points.get(), stats));
      break;
    }
    case "timers":
      for (const listener of [...listeners.timers]) listener(data as unknown as TimerChanges);
      break;
    case "compensations":
      for (const listener of [...listeners.compensations]) listener(data as unknown as CompensationChanges);
      break;
    case "types":
      for (const listener of [...listeners.types]) listener();
      break;
  }
}

let running: AbortController | undefined;
let leave: (() => void) | undefined;
let paused = false;

/** `fresh`: what is shown was read while no stream told of changes. */
async function run(signal: AbortSignal, fresh: boolean): Promise<void> {
  let attempt = 0;
  let first = !fresh;
  while (!signal.aborted) {
    liveState.set("connecting");
    let refused = false;
    try {
      await readStream(
        "/v1/events/stream",
        {},
        signal,
        () => {
          attempt = 0;
          answered();
          liveState.set("open");
          if (!first) for (const listener of [...listeners.fresh]) listener();
          first = false;
        },
        take,
      );
    } catch (error) {
      if (signal.aborted) return;
      refused = error instanceof Problem;
      if (error instanceof Problem) {
        answered();
        if (error.status === 404 || error.status === 501 || error.status === 405) {
          liveState.set("absent");
          return;
        }
        if (error.status === 401) return;
      }
    }
    if (signal.aborted) return;
    first = false;
    liveState.set("waiting");
    // A stream that was cut may mean only a restart: whether the server is away shows in the next attempt. One that says
    // no is not away.
    if (attempt > 0 && !refused) unanswered();
    await sleep(backoffMs(attempt), signal);
    attempt += 1;
  }
}

let endSleep: (() => void) | undefined;

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      endSleep = undefined;
      resolve();
    };
    const timer = setTimeout(end, ms);
    endSleep = end;
    signal.addEventListener("abort", end);
  });
}

/** The server has answered: a stream that waits is opened now. */
export function wakeLive(): void {
  endSleep?.();
}

function stop(): void {
  leave?.();
  leave = undefined;
  running?.abort();
  running = undefined;
}

function settle(): void {
  stop();
  if (!token.get()) return liveState.set("off");
  if (document.hidden) return liveState.set("hidden");
  if (paused) return liveState.set("paused");
  let waited = false;
  leave = enlist((has) => {
    running?.abort();
    running = undefined;
    if (!has) {
      waited = true;
      return liveState.set("crowded");
    }
    running = new AbortController();
    void run(running.signal, waited);
  });
}

export function setPaused(next: boolean): void {
  const before = paused;
  paused = next;
  settle();
  if (before && !next) for (const listener of [...listeners.fresh]) listener();
}

export function isPaused(): boolean {
  return paused;
}

/** Starts for as long as the page lives. */
export function startLive(): () => void {
  let wasHidden = document.hidden;
  const onVisibility = () => {
    settle();
    if (wasHidden && !document.hidden) for (const listener of [...listeners.fresh]) listener();
    wasHidden = document.hidden;
  };
  document.addEventListener("visibilitychange", onVisibility);
  // What one key or namespace is told is nothing for another.
  const anew = () => {
    latestStats.set(undefined);
    points.set([]);
    settle();
  };
  const unsubscribe = [token.subscribe(anew), namespace.subscribe(anew)];
  settle();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    for (const end of unsubscribe) end();
    stop();
  };
}
