/** The address holds the whole view. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export type Search = Record<string, string | undefined>;

export function parseSearch(text: string): Search {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, one] of Object.entries(search)) {
    if (one !== undefined && one !== null && one !== "") params.set(name, String(one));
  }
  const text = params.toString();
  return text ? `?${text}` : "";
}

export function useAddress(): [Search, (patch: Search, how?: { push?: boolean }) => void] {
  const search = useSearch({ strict: false }) as Search;
  const navigate = useNavigate();
  const set = useCallback(
    (patch: Search, how?: { push?: boolean }) => {
      void navigate({
        to: ".",
        search: ((before: Search) => ({ ...before, ...patch })) as never,
        replace: !how?.push,
        resetScroll: false,
      });
    },
    [navigate],
  );
  return [search, set];
}
