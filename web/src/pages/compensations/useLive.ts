/** What the stream tells of compensations that are on the screen: they change in place, and never move. */
import { useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useEffect, useRef } from "react";

import { patchPages } from "../../actions/cache";
import { onLive, type CompensationChanges } from "../../api/live";
import type { Compensation, Page } from "../../api/model";

type Pages = InfiniteData<Page<Compensation>, string | undefined>;

export function useLiveOne(id: string): void {
  const client = useQueryClient();
  useEffect(
    () =>
      onLive("compensations", ({ changed, dropped }) => {
        if (dropped > 0 || changed.some((one) => one.id === id)) void client.invalidateQueries({ queryKey: ["compensation", id] });
      }),
    [client, id],
  );
}

export function useLiveRows(queryKey: readonly unknown[]): void {
  const client = useQueryClient();
  const latest = useRef(queryKey);
  latest.current = queryKey;
  useEffect(
    () =>
      onLive("compensations", ({ changed }) => {
        const pages = client.getQueryData<Pages>(latest.current);
        const next = pages && patched(pages, new Map(changed.map((one) => [one.id, one])));
        if (next && next !== pages) client.setQueryData(latest.current, next);
      }),
    [client],
  );
}

/** The same one if nothing of it has changed. */
export function patched(pages: Pages, changed: ReadonlyMap<string, CompensationChanges["changed"][number]>): Pages {
  return patchPages(pages, changed, (row, one) => ({ ...row, state: one.state as Compensation["state"], attempt: one.attempt ?? row.attempt }));
}
