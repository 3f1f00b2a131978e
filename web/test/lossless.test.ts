import { expect, it } from "vitest";

import { hasExactNumbers, numberText, parse, stringify } from "../src/api/lossless";

it("keeps every integer and decimal exactly, there and back", () => {
  const text = '{"a":9007199254740993,"b":-9007199254740993,"c":12345678901234567890123,"d":1.5,"e":0.1234567890123456789,"f":1e400,"g":9007199254740991}';
  const value = parse(text) as Record<string, unknown>;
  expect(value["a"]).toBe(9007199254740993n);
  expect(value["g"]).toBe(9007199254740991);
  expect(numberText(value["c"])).toBe("12345678901234567890123");
  expect(numberText(value["e"])).toBe("0.1234567890123456789");
  expect(stringify(value)).toBe(text);
});

it("knows what a form of doubles would round", () => {
  expect(hasExactNumbers(parse('{"a":[{"b":9007199254740993}]}'))).toBe(true);
  expect(hasExactNumbers(parse('{"a":[{"b":1.5,"c":9007199254740991,"d":null}]}'))).toBe(false);
});

it("takes no prototype from a payload", () => {
  parse('{"__proto__":{"polluted":true}}');
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});
