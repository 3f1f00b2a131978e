/** After an action: what is on the screen takes in the timer that the server answered with. */
import type { InfiniteData, QueryClient } from "@tanstack/react-query";

import type { Page, Timer, TimerSummary } from "../api/model";
import { summary, type TimerPages } from "../api/queries";

type Pages<T> = InfiniteData<Page<T>, string | undefined>;

/** Changes rows where they stand; the same pages if none of them is held. */
export function patchPages<T extends { id: string }, C>(pages: Pages<T>, changed: ReadonlyMap<string, C>, patch: (row: T, change: C) => T): Pages<T> {
  let touched = false;
  const next = pages.pages.map((page): Page<T> => {
    if (!page.items.some((row) => changed.has(row.id))) return page;
    touched = true;
    return {
      ...page,
      items: page.items.map((row) => {
        const change = changed.get(row.id);
        return change === undefined ? row : patch(row, change);
      }),
    };
  });
  return touched ? { ...pages, pages: next } : pages;
}

export function patchRow(pages: TimerPages, changed: ReadonlyMap<string, TimerSummary>): TimerPages {
  return patchPages(pages, changed, (row, newer) => (newer.version >= row.version ? { ...row, ...newer } : row));
}

export function patchLists(client: QueryClient, changed: ReadonlyMap<string, TimerSummary>): void {
  for (const [key, pages] of client.getQueriesData<TimerPages>({ queryKey: ["timers"] })) {
    if (!pages?.pages) continue;
    const next = patchRow(pages, changed);
    if (next !== pages) client.setQueryData(key, next);
  }
}

export function tookIn(client: QueryClient, timer: Timer): void {
  client.setQueryData(["timer", timer.id], timer);
  patchLists(client, new Map([[timer.id, summary(timer)]]));
  void client.invalidateQueries({ queryKey: ["timer", timer.id, "events"] });
  void client.invalidateQueries({ queryKey: ["timer", timer.id, "explain"] });
  void client.invalidateQueries({ queryKey: ["compensations", "timer", timer.id] });
}
