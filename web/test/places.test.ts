import { expect, it } from "vitest";

import { alive, hasPlace, PLACES, type Windows } from "../src/api/places";

const NOW = 1_000_000;
const windows = (...used: number[]): Windows => Object.fromEntries(used.map((u, n) => [`w${n}`, { used: u, beat: NOW }]));

it("gives the places to the windows that were used last, and never to more than there are", () => {
  const all = windows(5, 9, 1, 7, 3, 8, 2);
  expect(Object.keys(all).filter((id) => hasPlace(all, id))).toEqual(["w0", "w1", "w3", "w5"]);
  const equal = windows(1, 1, 1, 1, 1, 1, 1);
  expect(Object.keys(equal).filter((id) => hasPlace(equal, id)).length).toBe(PLACES);
  expect(hasPlace(all, "not enlisted")).toBe(false);
});

it("knows a window that is gone by its silence, and nothing that others wrote makes it fail", () => {
  const all: Windows = { here: { used: 1, beat: NOW - 5_000 }, gone: { used: 2, beat: NOW - 60_000 }, ahead: { used: 3, beat: NOW + 60_000 } };
  expect(Object.keys(alive(JSON.stringify(all), NOW))).toEqual(["here"]);
  for (const stored of [null, "", "7", "null", "[1]", '{"a":null}', '{"a":{"used":"x"}}', "{"]) expect(alive(stored, NOW)).toEqual({});
});
