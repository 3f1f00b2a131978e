import assert from "node:assert/strict";
import { test } from "node:test";

import { compensate, decide, fake } from "@lapse/plugin/testing";

import plugin from "../src/plugin.ts";
import type { Config, Payload } from "../src/schema.ts";

const payload: Payload = { order_id: "A 17", merchant_id: "m-1", amount: 12_900 };
const config: Config = {
  term: "10s",
  action: "refund",
  notice_url: "http://shop/notices",
  refund_url: "http://shop/refunds",
};
const encode = (text: string) => new TextEncoder().encode(text);

test("the order's own term goes before the type's", () => {
  const { decision } = decide(plugin, { payload: { ...payload, term: "100s" }, config, dueAt: 1_000_000 });
  assert.equal(decision?.follow_ups[0].due_at, new Date(1_020_000).toISOString());
});

test("an order that is shipped is left alone, and one that is not is not", () => {
  for (const shipped of [true, false]) {
    fake.http = ({ url }) => {
      assert.equal(url, "http://shop/orders/A%2017");
      return { status: 200, headers: [], body: encode(JSON.stringify({ shipped })) };
    };
    const { decision } = decide(plugin, { payload, config: { ...config, order_url: "http://shop/orders" } });
    assert.equal(decision?.outcome, shipped ? "skip" : "close");
  }
});

test("a service that is away is tried again, when it says", () => {
  fake.http = () => ({ status: 503, headers: [{ name: "retry-after", value: "7" }], body: encode("") });
  const { failure } = compensate(plugin, { kind: "refund", payload: { amount: 1 }, config });
  assert.deepEqual([failure?.class, failure?.code, failure?.retry_after], ["downstream", "http_503", "7s"]);
});
