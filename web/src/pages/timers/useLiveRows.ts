/**
 * A list under a live stream: rows that are held change in place, and never move; what is new is only counted, until
 * somebody asks for it. While rows are selected, nothing changes.
 */
import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";

import { patchRow } from "../../actions/cache";
import { onLive } from "../../api/live";
import type { TimerSummary } from "../../api/model";
import type { TimerPages } from "../../api/queries";
import { serverNow } from "../../time/clock";
import { isBefore, matches, type Filter } from "./filter";

/** New rows counted at most; beyond, "1,000+". */
export const MAX_NEW = 1000;

type Fresh = { ids: ReadonlySet<string>; more: boolean };

const NONE: Fresh = { ids: new Set(), more: false };

type Params = { queryKey: readonly unknown[]; filter: Filter; selecting: boolean };

export function useLiveRows({ queryKey, filter, selecting }: Params): { fresh: number; more: boolean; reset: () => void } {
  const client = useQueryClient();
  const [fresh, setFresh] = useState(NONE);
  // React would keep each update that changes nothing until the page is drawn next: there may be none for hours.
  const counted = useRef(NONE);
  const count = useCallback((next: Fresh) => {
    if (next === counted.current) return;
    counted.current = next;
    setFresh(next);
  }, []);
  const latest = useRef({ queryKey, filter, selecting });
  latest.current = { queryKey, filter, selecting };
  const name = JSON.stringify(queryKey);

  useEffect(() => count(NONE), [name, count]);

  useEffect(
    () =>
      onLive("timers", ({ changed, dropped }) => {
        const { queryKey: key, filter: wanted, selecting: busy } = latest.current;
        const pages = client.getQueryData<TimerPages>(key);
        if (!pages) return;
        const held = new Set(pages.pages.flatMap((p) => p.items.map((row) => row.id)));
        if (!busy) {
          const next = patchRow(pages, new Map(changed.map((row) => [row.id, row])));
          if (next !== pages) client.setQueryData(key, next);
        }
        // What comes after the last row that is held is on a later page, and no news.
        const last = pages.pages.at(-1)?.next_cursor ? pages.pages.findLast((p) => p.items.length > 0)?.items.at(-1) : undefined;
        const news = unseen(changed, held, wanted, last);
        if (news.length === 0 && dropped === 0) return;
        count(more(counted.current, news, dropped));
      }),
    [client, count],
  );

  return { fresh: fresh.ids.size, more: fresh.more, reset: () => count(NONE) };
}

/** The same one if nothing is to be added. */
function more(before: Fresh, news: readonly string[], dropped: number): Fresh {
  const added = news.filter((id) => !before.ids.has(id)).slice(0, MAX_NEW - before.ids.size);
  const ids = added.length > 0 ? new Set([...before.ids, ...added]) : before.ids;
  const more = before.more || ids.size >= MAX_NEW || (dropped > 0 && ids.size > 0);
  return ids === before.ids && more === before.more ? before : { ids, more };
}

function unseen(changed: readonly TimerSummary[], held: ReadonlySet<string>, filter: Filter, last: TimerSummary | undefined): string[] {
  const now = serverNow();
  const fits = (row: TimerSummary) => matches(filter, row, now) && (!last || isBefore(filter, row, last));
  return changed.filter((row) => !held.has(row.id) && fits(row)).map((row) => row.id);
}
