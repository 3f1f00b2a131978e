/** Between the address and the server's query. */
import type { Query } from "../../api/http";
import { STATES, type State, type TimerSummary } from "../../api/model";
import type { Search } from "../../ui/address";
import { GRACE_MS } from "../../ui/State";

/** What the state filter offers: the states, and two looks that are derived. */
export const STATE_FILTERS = ["overdue", "retrying", ...STATES] as const;
export type StateFilter = (typeof STATE_FILTERS)[number];

/** The orders that an index serves. */
export const ORDERS = ["due_asc", "due_desc"] as const;
export type Order = (typeof ORDERS)[number];

/** A key that ends so is the start of one. */
const ANY_END = "*";

export type Filter = {
  order?: Order;
  type?: string;
  state?: StateFilter;
  key?: string;
  label?: string;
  due_after?: string;
  due_before?: string;
};

const RELATIVE: Record<string, number> = { "1h": 3_600_000, "24h": 86_400_000 };
export const DUE_PRESETS = ["past", "1h", "24h"] as const;

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?Z$/;

/** `1h`, `24h` and `past` are relative to `nowMs`; `FROM..UNTIL` is frozen, and either end may be left open. */
export function dueRange(due: string | undefined, nowMs: number): Pick<Filter, "due_after" | "due_before"> {
  if (!due) return {};
  const now = new Date(nowMs).toISOString();
  const ahead = RELATIVE[due];
  if (ahead) return { due_after: now, due_before: new Date(nowMs + ahead).toISOString() };
  if (due === "past") return { due_before: now };
  const [from = "", until = ""] = due.split("..");
  return {
    ...(INSTANT.test(from) ? { due_after: from } : {}),
    ...(INSTANT.test(until) ? { due_before: until } : {}),
  };
}

/** The same view with its range fixed, for a link that means the same tomorrow. */
export function freeze(search: Search, nowMs: number): Search {
  if (!search["due"] || search["due"].includes("..")) return search;
  const { due_after = "", due_before = "" } = dueRange(search["due"], nowMs);
  return { ...search, due: `${due_after}..${due_before}` };
}

export function filterOf(search: Search, nowMs: number): Filter {
  const state = STATE_FILTERS.find((s) => s === search["state"]) ?? (search["expired"] === "true" ? "overdue" : undefined);
  return {
    type: search["type"] || undefined,
    state,
    key: search["key"] || undefined,
    order: ORDERS.find((o) => o === search["order"]),
    label: search["label"] || undefined,
    ...dueRange(search["due"], nowMs),
  };
}

export function isFiltered(search: Search): boolean {
  return ["type", "state", "key", "label", "due", "expired"].some((name) => search[name]);
}

/** What the server is asked. A retrying timer is past its due time, since its first attempt was then. */
export function queryOf(filter: Filter): Query {
  const derived = filter.state === "overdue" || filter.state === "retrying";
  const prefix = prefixOf(filter);
  return {
    type: filter.type,
    state: filter.state === "overdue" ? ["scheduled", "firing"] : derived ? "scheduled" : filter.state,
    expired: derived ? true : undefined,
    key: prefix === undefined ? filter.key : undefined,
    key_prefix: prefix,
    // A list by the start of a key is in order of key, and has no other.
    order: prefix === undefined ? orderOf(filter) : undefined,
    payload: false,
    label: filter.label,
    due_after: filter.due_after,
    due_before: filter.due_before,
  };
}

export function prefixOf(filter: Filter): string | undefined {
  const key = filter.key;
  return key !== undefined && key.length > 1 && key.endsWith(ANY_END) ? key.slice(0, -1) : undefined;
}

/** What is still to come, soonest first; what is past, latest first. */
export function orderOf(filter: Filter): Order {
  if (filter.order) return filter.order;
  const pending = filter.state === "overdue" || filter.state === "retrying" || filter.state === "scheduled" || filter.state === "firing";
  return pending ? "due_asc" : "due_desc";
}

/** Whether a row stands before another in the list's order. */
export function isBefore(filter: Filter, row: TimerSummary, other: TimerSummary): boolean {
  if (prefixOf(filter) !== undefined) return row.key < other.key;
  const apart = Date.parse(row.due_at) - Date.parse(other.due_at);
  return orderOf(filter) === "due_asc" ? apart < 0 : apart > 0;
}

/** What the server cannot tell apart is told apart here, among the rows that it sent. */
export function shows(filter: Filter, row: TimerSummary): boolean {
  return filter.state !== "retrying" || row.attempt > 1;
}

/** Whether a timer that the stream told of belongs to this view. Labels are not in the stream: such a view never counts. */
export function matches(filter: Filter, row: TimerSummary, nowMs: number): boolean {
  if (filter.label) return false;
  if (filter.type && row.type !== filter.type) return false;
  const prefix = prefixOf(filter);
  if (prefix !== undefined ? !row.key.startsWith(prefix) : filter.key && row.key !== filter.key) return false;
  const due = Date.parse(row.due_at);
  if (filter.due_after && due <= Date.parse(filter.due_after)) return false;
  if (filter.due_before && due >= Date.parse(filter.due_before)) return false;
  switch (filter.state) {
    case undefined:
      return true;
    case "overdue":
      return (row.state === "scheduled" || row.state === "firing") && due <= nowMs - GRACE_MS;
    case "retrying":
      return row.state === "scheduled" && row.attempt > 1;
    default:
      return row.state === (filter.state as State);
  }
}
