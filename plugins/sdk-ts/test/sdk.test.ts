import assert from "node:assert/strict";
import { test } from "node:test";

import { close, definePlugin, Failure, ms, retry, skip } from "../src/index.ts";
import { post, request } from "../src/http.ts";
import { read, SqlFailure, transact } from "../src/sql.ts";
import { fake } from "../src/testing.ts";
import type { Expiry } from "../src/wit.ts";

const expiry = (payload: unknown): Expiry => ({
  timerId: "t", namespace: "default", timerType: "test", key: "k", payload: JSON.stringify(payload), attempt: 1,
  trigger: "slot", idempotencyKey: "t", dueAt: 5, firedAt: 6, config: "{}",
});
const plugin = (onExpire: Parameters<typeof definePlugin<any, any>>[0]["onExpire"]) =>
  definePlugin<any, any>({ manifest: { name: "test", version: "1" }, onExpire });

test("durations are read, and what is none is refused", () => {
  assert.deepEqual(["500ms", "30s", "15m", "2h", "7d", 3].map((d) => ms(d as string)), [500, 30e3, 9e5, 72e5, 6048e5, 3]);
  for (const no of ["", "1", "s", "-1s", "1.5h", "1w", -1, 0.5, Infinity]) assert.throws(() => ms(no as string), RangeError);
});

test("a decision becomes the interface's, and the samples' form", () => {
  const decision = close({ a: 1 }).compensate("undo", { b: "ü" }).count("seen")
    .followUp({ type: "next", key: "n", payload: 1, after: "90s" });
  assert.deepEqual(plugin(() => decision).onExpire(expiry({})), {
    verdict: { tag: "close", val: '{"a":1}' },
    effects: {
      compensations: [{ kind: "undo", payload: '{"b":"ü"}' }],
      followUps: [{ timerType: "next", key: "n", payload: "1", due: { tag: "after", val: 90_000 } }],
      events: [],
      counters: [{ name: "seen", value: 1 }],
    },
  });
  assert.deepEqual(retry("later", "2m").toWit().verdict, { tag: "retry", val: { after: 120_000, reason: "later" } });
  assert.deepEqual(JSON.parse(JSON.stringify(skip("no"))).reason, "no");
  assert.equal(JSON.parse(JSON.stringify(decision)).follow_ups[0].delay, "90s");
});

test("what is thrown leaves as a failure", () => {
  const thrown = (body: () => never) => {
    try {
      plugin(body).onExpire(expiry({}));
    } catch (e) {
      return e as { class: string; code: string; message: string; retryAfter: number | null };
    }
    throw new Error("nothing was thrown");
  };
  const meant = thrown(() => { throw Failure.conflict("taken", "it is").retryAfter("3s"); });
  assert.deepEqual(meant, { class: "conflict", code: "taken", message: "it is", retryAfter: 3000 });
  const not = thrown(() => { throw new TypeError("oops"); });
  assert.deepEqual([not.class, not.code], ["permanent", "exception"]);
  assert.match(not.message, /TypeError: oops/);
});

test("a request is sent as UTF-8 and its answer read, where there is no encoder", () => {
  const text = "aé€𝄞";
  fake.http = ({ body }) => ({ status: 200, headers: [], body: body! });
  const { TextEncoder, TextDecoder } = globalThis;
  assert.equal(post("http://a/", { json: text }).json(), text);
  assert.deepEqual([...fake.requests.at(-1)!.body!], [...new TextEncoder().encode(JSON.stringify(text))]);
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82], [0xf5, 0x80, 0x80, 0x80]]) {
    const given = Uint8Array.from([0x61, ...bytes, 0x62]);
    fake.http = () => ({ status: 200, headers: [], body: given });
    const read = request("http://a/").text();
    assert.ok(/^a\ufffd+b$/.test(read), read);
    assert.ok(/^a\ufffd+b$/.test(new TextDecoder().decode(given)));
  }
});

test("a failure to reach is classified", () => {
  for (const [tag, expected] of [["timeout", "downstream"], ["connection", "downstream"], ["denied", "permanent"]]) {
    fake.http = () => { throw { tag, val: "why" }; };
    assert.throws(() => request("http://a/"), (e) => e instanceof Failure && e.failureClass === expected);
  }
});

test("a secret goes into a header by its name alone", () => {
  fake.http = () => ({ status: 204, headers: [], body: new Uint8Array() });
  post("http://a/", { secretHeaders: { authorization: { secret: "shop", prefix: "Bearer " } } });
  assert.deepEqual(fake.requests.at(-1)!.secrets, [{ name: "authorization", prefix: "Bearer ", secret: "shop" }]);
});

test("statements and rows are carried over, and errors classified", () => {
  const at = new Date(1_234);
  fake.sql = (_source, statements) => statements.map(({ parameters }) => ({
    rowsAffected: 1,
    columns: parameters.map((_, n) => `c${n}`),
    rows: [parameters.flatMap((p) => (p.tag === "value" ? [p.val] : []))],
  }));
  const parameters = [null, true, 7, 0.5, "x", at, { json: { a: 1 } }, { decimal: "1.50" }];
  const { rows } = read("shop", { text: "SELECT $1", parameters });
  assert.deepEqual(Object.values(rows[0]!), [null, true, 7, 0.5, "x", at, { a: 1 }, "1.50"]);
  for (const [error, expected] of [
    [{ tag: "unique", val: { statement: 0, message: "m" } }, "conflict"],
    [{ tag: "busy", val: { statement: 0, message: "m" } }, "transient"],
    [{ tag: "outcome-unknown", val: "m" }, "downstream"],
    [{ tag: "guard-failed", val: { statement: 0, expected: 1, actual: 0 } }, "permanent"],
  ] as const) {
    fake.sql = () => { throw error; };
    assert.throws(() => transact("shop", [{ text: "x" }]), (e) => e instanceof SqlFailure && e.failureClass === expected);
  }
});
