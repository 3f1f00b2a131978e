/** After an action: what is on the screen takes in the timer that the server answered with. */
import type { QueryClient } from "@tanstack/react-query";

import type { Page, Timer, TimerSummary } from "../api/model";
import { summary, type TimerPages } from "../api/queries";

export function patchRow(pages: TimerPages, changed: ReadonlyMap<string, TimerSummary>): TimerPages {
  let touched = false;
  const next = pages.pages.map((page): Page<TimerSummary> => {
    if (!page.items.some((row) => changed.has(row.id))) return page;
    touched = true;
    return {
      ...page,
      items: page.items.map((row) => {
        const newer = changed.get(row.id);
        return newer && newer.version >= row.version ? { ...row, ...newer } : row;
      }),
    };
  });
  return touched ? { ...pages, pages: next } : pages;
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
