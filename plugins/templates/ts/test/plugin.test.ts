import assert from "node:assert/strict";
import { test } from "node:test";

import { compensate, decide, fake } from "@lapse/plugin/testing";

import plugin from "../src/plugin.ts";

const payload = { reservation_id: "R1", item: "table 4" };
const config = { release_url: "http://127.0.0.1:9000/release" };

test("it closes, and releases where there is a service to tell", () => {
  assert.deepEqual(decide(plugin, { payload }).decision?.compensations, []);
  assert.deepEqual(decide(plugin, { payload, config }).decision?.compensations, [{ kind: "release", payload }]);
});

test("a service that is away is tried again", () => {
  fake.http = () => ({ status: 503, headers: [], body: new Uint8Array() });
  assert.equal(compensate(plugin, { kind: "release", payload, config }).failure?.class, "downstream");
  assert.equal(fake.requests.at(-1)?.url, config.release_url);
});
