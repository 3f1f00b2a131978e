/** Helpers that `lapse type generate` wrote, of the server's types and of schemas of all sorts. */
import assert from "node:assert/strict";
import { createClient } from "@lapse/client";
import type { AlertPayload, PayoutPayload } from "./sorts.js";
import { getOrderTimeout, registerOrderTimeout, resolveOrderTimeout } from "./types.js";

const lapse = createClient({ baseUrl: process.env["LAPSE_SERVER_URL"] ?? "", token: process.env["LAPSE_TOKEN"] ?? "" });
const key = `types-ts-${process.pid}-${Date.now()}`;
const payload = { order_id: "A1", user_id: "u1", total_amount: 1990, payment_method: "online", items: [{ sku: "tea", quantity: 2 }] } as const;
const timer = await registerOrderTimeout(lapse, { key, delay: "1h", payload: { ...payload, items: [...payload.items] } });
assert.equal(timer.payload.items[0]?.sku, "tea");
assert.equal((await getOrderTimeout(lapse, key)).type, "order-timeout");
assert.equal((await resolveOrderTimeout(lapse, key, { reason: "paid" })).state, "resolved");

/** What must not compile. */
export function typed(): unknown[] {
  // @ts-expect-error a payload has items
  void registerOrderTimeout(lapse, { key, payload: { order_id: "A1", user_id: "u1", total_amount: 1, payment_method: "online" } });
  // @ts-expect-error there is no such method
  void registerOrderTimeout(lapse, { key, payload: { ...payload, items: [], payment_method: "shells" } });
  // @ts-expect-error a timer needs a key
  void registerOrderTimeout(lapse, { payload: { ...payload, items: [] } });
  const alert: AlertPayload = { rule: { any_of: [{ metric: "cpu" }] }, class: 'a"b\\c', undescribed: 1, "not-a-name": true, when: { from: "a" } };
  // @ts-expect-error `from` is a text
  const wrong: AlertPayload = { ...alert, when: { from: 1 } };
  const payout: PayoutPayload = { amount: 9007199254740993n, iban: "DE" };
  // @ts-expect-error one of two
  const neither: PayoutPayload = { amount: 1 };
  return [wrong, payout, neither];
}
