/** What is read, each with its key. Lists keep the old rows while new ones come. */
import { QueryClient, keepPreviousData, useInfiniteQuery, useQuery, type InfiniteData } from "@tanstack/react-query";

import { get, type Query } from "./http";
import type {
  Compensation,
  Explanation,
  Forecast,
  Page,
  Plugin,
  Revision,
  Self,
  Stats,
  Timer,
  TimerEvent,
  TimerSummary,
  TimerType,
} from "./model";
import { isStatus, Problem } from "./problem";

export const PAGE = 100;
/** Rows held at most; the list then goes on from a new start. */
export const MAX_ROWS = 2000;
/** Pages of dead compensations looked at for groups. */
const GROUP_PAGES = 4;
const GROUP_PAGE = 500;

export function makeClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        gcTime: 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        networkMode: "always",
        // The banner's own loop asks whether the server is back; a problem is an answer.
        retry: (failures, error) => failures < 1 && !(error instanceof Problem),
        retryDelay: 400,
      },
      mutations: { networkMode: "always", retry: false },
    },
  });
}

const enc = encodeURIComponent;

export const timerPath = (id: string) => `/v1/timers/${enc(id)}`;
export const typePath = (type: string) => `/v1/types/${enc(type)}`;
export const compensationPath = (id: string) => `/v1/compensations/${enc(id)}`;

/** What a list holds of a timer: never its payload, which may be 64 KiB. */
export function summary(timer: Timer): TimerSummary {
  const { payload: _payload, outcome: _outcome, labels: _labels, ...rest } = timer;
  return rest;
}

export function useTimers(query: Query, start: string | undefined) {
  return useInfiniteQuery({
    queryKey: ["timers", query, start],
    initialPageParam: start,
    queryFn: async ({ pageParam, signal }) => {
      const page = await get<Page<Timer>>("/v1/timers", { ...query, limit: PAGE, cursor: pageParam }, signal);
      return { items: page.items.map(summary), next_cursor: page.next_cursor };
    },
    getNextPageParam: (last: Page<TimerSummary>, pages) =>
      pages.length * PAGE >= MAX_ROWS ? undefined : last.next_cursor,
    placeholderData: keepPreviousData,
  });
}

export type TimerPages = InfiniteData<Page<TimerSummary>, string | undefined>;

export function useTimer(id: string) {
  return useQuery({ queryKey: ["timer", id], queryFn: ({ signal }) => get<Timer>(timerPath(id), undefined, signal) });
}

/** Reads a small list to its end, within a bound. */
async function all<T>(path: string, query: Query, signal: AbortSignal, pages: number, limit: number) {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let n = 0; n < pages; n += 1) {
    const page = await get<Page<T>>(path, { ...query, limit, cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor;
    if (!cursor) break;
  }
  return { items, more: cursor !== undefined };
}

/** Events come oldest first and are shown newest first, so all are read, within a bound: 4 pages of 500. */
export const MAX_EVENTS = 2000;

export function useTimerEvents(id: string) {
  return useQuery({
    queryKey: ["timer", id, "events"],
    queryFn: ({ signal }) => all<TimerEvent>(`${timerPath(id)}/events`, {}, signal, MAX_EVENTS / 500, 500),
    placeholderData: keepPreviousData,
  });
}

export function useExplanation(id: string, enabled: boolean) {
  return useQuery({
    queryKey: ["timer", id, "explain"],
    queryFn: ({ signal }) => get<Explanation>(`${timerPath(id)}/explain`, undefined, signal),
    enabled,
    placeholderData: keepPreviousData,
    refetchInterval: 5_000,
  });
}

export function useTypes() {
  return useQuery({
    queryKey: ["types"],
    queryFn: ({ signal }) => all<TimerType>("/v1/types", {}, signal, 4, 500),
    staleTime: 10_000,
    placeholderData: keepPreviousData,
  });
}

export function useType(type: string) {
  return useQuery({ queryKey: ["type", type], queryFn: ({ signal }) => get<TimerType>(typePath(type), undefined, signal) });
}

export function useRevisions(type: string, enabled = true) {
  return useQuery({
    enabled,
    queryKey: ["type", type, "revisions"],
    queryFn: ({ signal }) => all<Revision>(`${typePath(type)}/revisions`, {}, signal, 4, 500),
  });
}

export function usePlugins() {
  return useQuery({ queryKey: ["plugins"], queryFn: ({ signal }) => all<Plugin>("/v1/plugins", {}, signal, 4, 500) });
}

export function usePlugin(digest: string | undefined) {
  return useQuery({
    queryKey: ["plugin", digest],
    queryFn: ({ signal }) => get<Plugin>(`/v1/plugins/${enc(digest ?? "")}`, undefined, signal),
    enabled: digest !== undefined,
    staleTime: Infinity,
  });
}

export function useCompensations(query: Query, start: string | undefined) {
  return useInfiniteQuery({
    queryKey: ["compensations", query, start],
    initialPageParam: start,
    queryFn: ({ pageParam, signal }) =>
      get<Page<Compensation>>("/v1/compensations", { ...query, limit: PAGE, cursor: pageParam }, signal),
    getNextPageParam: (last: Page<Compensation>, pages) => (pages.length * PAGE >= MAX_ROWS ? undefined : last.next_cursor),
    placeholderData: keepPreviousData,
  });
}

/** The dead ones, as many as may be held, for grouping. */
export function useDeadCompensations(query: Query) {
  return useQuery({
    queryKey: ["compensations", "dead", query],
    queryFn: ({ signal }) =>
      all<Compensation>("/v1/compensations", { ...query, state: "dead" }, signal, GROUP_PAGES, GROUP_PAGE),
    placeholderData: keepPreviousData,
  });
}

export function useTimerCompensations(timerId: string) {
  return useQuery({
    queryKey: ["compensations", "timer", timerId],
    queryFn: ({ signal }) => all<Compensation>("/v1/compensations", { timer_id: timerId }, signal, 2, 200),
    placeholderData: keepPreviousData,
  });
}

export function useCompensation(id: string) {
  return useQuery({
    queryKey: ["compensation", id],
    queryFn: ({ signal }) => get<Compensation>(compensationPath(id), undefined, signal),
    // Its runs are another node's as often as not, and the stream tells of this one's.
    refetchInterval: (query) => (query.state.data?.state === "pending" || query.state.data?.state === "running" ? 5_000 : false),
  });
}

export function useStats() {
  return useQuery({
    queryKey: ["stats"],
    queryFn: ({ signal }) => get<Stats>("/v1/stats", undefined, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
}

export function useForecast(type: string | undefined) {
  return useQuery({
    queryKey: ["forecast", type],
    queryFn: ({ signal }) => get<Forecast>("/v1/forecast", { type }, signal),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });
}

/** Who this token is. A server that cannot say leaves it unknown. */
export function useSelf() {
  return useQuery({
    queryKey: ["self"],
    queryFn: async ({ signal }) => {
      try {
        return await get<Self>("/v1/self", undefined, signal);
      } catch (error) {
        if (isStatus(error, 404)) return null;
        throw error;
      }
    },
    staleTime: 60_000,
  });
}
