import { expect, it } from "vitest";

import { patchRow } from "../src/actions/cache";
import { addPoint, MAX_POINTS } from "../src/api/live";
import type { Compensation, HistoryPoint, Stats, TimerSummary } from "../src/api/model";
import type { TimerPages } from "../src/api/queries";
import { backoffMs, CAP_MS, FLOOR_MS } from "../src/api/backoff";
import { groupDead, hostOf, onlyHosts } from "../src/pages/compensations/groups";
import { patched } from "../src/pages/compensations/useLive";
import { dueRange, filterOf, freeze, isBefore, matches, queryOf } from "../src/pages/timers/filter";
import { parseSearch, stringifySearch } from "../src/ui/address";
import { visible } from "../src/ui/text";

const NOW = Date.parse("2026-11-30T12:00:00.000Z");

function row(id: string, more: Partial<TimerSummary> = {}): TimerSummary {
  return { id, type: "t", key: id, state: "scheduled", due_at: "2026-11-30T13:00:00.000Z", created_at: "2026-11-30T12:00:00.000Z", expired: false, attempt: 1, version: 1, revision: 1, ...more };
}

const pages = (...rows: TimerSummary[][]): TimerPages => ({ pages: rows.map((items) => ({ items })), pageParams: rows.map(() => undefined) });

it("changes held rows where they stand, adds none, and never goes back a version", () => {
  const before = pages([row("a"), row("b", { version: 5 })], [row("c")]);
  const told = [row("c", { version: 2, state: "closed" }), row("b", { version: 4, state: "failed" }), row("z")];
  const after = patchRow(before, new Map(told.map((r) => [r.id, r])));
  expect(after.pages.flatMap((p) => p.items).map((r) => `${r.id} ${r.state}`)).toEqual(["a scheduled", "b scheduled", "c closed"]);
  expect(patchRow(before, new Map([["z", row("z")]]))).toBe(before);
});

it("takes in what becomes of compensations where they stand", () => {
  const one = (id: string, state: Compensation["state"]) => ({ id, state, attempt: 1 }) as Compensation;
  const before = { pages: [{ items: [one("a", "dead"), one("b", "dead")] }], pageParams: [undefined] };
  const after = patched(before, new Map([["b", { id: "b", state: "pending", attempt: 2 }]]));
  expect(after.pages[0]?.items.map((c) => `${c.id} ${c.state} ${c.attempt}`)).toEqual(["a dead 1", "b pending 2"]);
  expect(patched(before, new Map([["z", { id: "z", state: "done" }]]))).toBe(before);
});

it("knows which rows stand before another", () => {
  const [soon, late] = [row("a"), row("b", { due_at: "2026-11-30T14:00:00.000Z" })];
  expect([isBefore({}, late, soon), isBefore({}, soon, late)]).toEqual([true, false]);
  expect([isBefore({ order: "due_asc" }, soon, late), isBefore({ order: "due_asc" }, late, soon)]).toEqual([true, false]);
  expect([isBefore({ key: "x*" }, soon, late), isBefore({ key: "x*" }, late, soon)]).toEqual([true, false]);
});

it("holds a bounded number of points, in order, each second once", () => {
  let all: readonly HistoryPoint[] = [];
  for (let n = 0; n < MAX_POINTS + 50; n += 1) {
    const stats = { now: new Date(NOW + n * 1000).toISOString(), rates: { closed: n }, types: [] } as unknown as Stats;
    all = addPoint(addPoint(all, stats), stats);
  }
  expect(all).toHaveLength(MAX_POINTS);
  expect(all.at(-1)?.closed).toBe(MAX_POINTS + 49);
});

it("keeps keys as text in the address, whatever they look like", () => {
  for (const key of ["007", "9007199254740993", "true", "a=b&c", "ключ", "%2F/", "+1 2"]) {
    expect(parseSearch(stringifySearch({ key }))["key"]).toBe(key);
  }
  expect(stringifySearch({ a: undefined, b: "" })).toBe("");
});

it("asks the server for what it can filter, and freezes relative ranges for a link", () => {
  const filter = filterOf({ state: "overdue", due: "1h", key: "A17" }, NOW);
  const range = { due_after: "2026-11-30T12:00:00.000Z", due_before: "2026-11-30T13:00:00.000Z" };
  expect(queryOf(filter)).toMatchObject({ state: ["scheduled", "firing"], expired: true, key: "A17", order: "due_asc", payload: false, ...range });
  expect(queryOf(filterOf({ state: "closed" }, NOW))).toMatchObject({ state: "closed", order: "due_desc" });
  expect(queryOf(filterOf({ key: "A1*" }, NOW))).toMatchObject({ key: undefined, key_prefix: "A1", order: undefined });
  expect(matches(filterOf({ key: "A1*" }, NOW), row("A17"), NOW)).toBe(true);
  expect(freeze({ due: "1h" }, NOW)["due"]).toBe("2026-11-30T12:00:00.000Z..2026-11-30T13:00:00.000Z");
  expect(dueRange("..2026-11-30T13:00:00.000Z", NOW)).toEqual({ due_before: "2026-11-30T13:00:00.000Z" });
  expect(dueRange("rubbish..<script>", NOW)).toEqual({});
});

it("counts as new only what the view would show", () => {
  const overdue = filterOf({ state: "overdue" }, NOW);
  expect(matches(overdue, row("a", { due_at: "2026-11-30T11:59:00.000Z" }), NOW)).toBe(true);
  expect(matches(overdue, row("a"), NOW)).toBe(false);
  expect(matches(filterOf({ state: "failed", type: "t" }, NOW), row("a", { state: "failed" }), NOW)).toBe(true);
  expect(matches(filterOf({ type: "other" }, NOW), row("a"), NOW)).toBe(false);
});

it("waits longer and longer for a server that is away, with jitter, and never over 30 s", () => {
  expect(backoffMs(0, () => 1)).toBe(FLOOR_MS);
  expect(backoffMs(3, () => 1)).toBe(4000);
  expect(backoffMs(100, () => 1)).toBe(CAP_MS);
  expect(backoffMs(100, () => 0)).toBe(FLOOR_MS);
});

it("finds the host that failed, and groups the dead by it, oldest first", () => {
  const failure = (message: string) => ({ class: "downstream" as const, code: "unreachable", message });
  const dead = (id: string, message: string, at: string): Compensation => ({
    id, timer_id: "t", timer_key: "A17", type: "t", revision: 1, kind: "release", state: "dead", attempt: 12, created_at: at, settled_at: at, last_error: failure(message),
  });
  const groups = groupDead([
    dead("1", "could not reach https://user:pw@Inventory.example:8443/x: refused", "2026-11-30T11:00:00Z"),
    dead("2", "503 from coupons.example:9000", "2026-11-30T10:00:00Z"),
    dead("3", "GET https://inventory.example:8443/y timed out", "2026-11-30T10:30:00Z"),
    dead("4", "no money", "2026-11-30T11:30:00Z"),
  ]);
  expect(groups.map((g) => [g.host, g.rows.length])).toEqual([
    ["coupons.example:9000", 1],
    ["inventory.example:8443", 2],
    [undefined, 1],
  ]);
  const types = [{ name: "t", revision: 2, digest: "d", grants: ["http:only.example"] }, { name: "two", revision: 1, digest: "d", grants: ["http:a", "http:b"] }];
  const silent = { last_error: failure("was answered 404") };
  expect(hostOf({ ...silent, type: "t", revision: 2 }, onlyHosts(types))).toBe("only.example");
  expect(hostOf({ ...silent, type: "t", revision: 1 }, onlyHosts(types))).toBeUndefined();
  expect(hostOf({ ...silent, type: "two", revision: 1 }, onlyHosts(types))).toBeUndefined();
  expect(hostOf({ host: "said.example", type: "t", revision: 1, last_error: failure("http://other.example") })).toBe("said.example");
});

it("names what is not seen, and leaves what belongs to words", () => {
  expect(visible("a\u202Eb\u0000c\u{e0041}")).toBe("a[U+202E]b[U+0000]c[U+E0041]");
  const words = "خانه‌ها 👩‍🚀\t時\n";
  expect(visible(words)).toBe(words);
});
