/** The packed client against a running server: LAPSE_SERVER_URL, LAPSE_TOKEN, and in LAPSE_COMPONENT a plugin's file. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createClient, LapseConnectionError, LapseError, events, paginate, VERSION, type RegisterTimer, type Stats, type Timer } from "@lapse/client";

const baseUrl = process.env["LAPSE_SERVER_URL"] ?? assert.fail("LAPSE_SERVER_URL is not set");
const token = process.env["LAPSE_TOKEN"] ?? assert.fail("LAPSE_TOKEN is not set");
const component = process.env["LAPSE_COMPONENT"] ?? assert.fail("LAPSE_COMPONENT is not set");
const lapse = createClient({ baseUrl, token });

const run = `ts-${process.pid}-${Date.now()}`;
const order = (key: string, more: Partial<RegisterTimer> = {}): RegisterTimer => ({
  type: "order-timeout",
  key: `${run}-${key}`,
  delay: "1h",
  payload: { order_id: key, user_id: "u1", total_amount: 1990, payment_method: "online", items: [{ sku: "tea", quantity: 2 }] },
  ...more,
});

async function refused(code: LapseError["code"], call: Promise<unknown>): Promise<LapseError> {
  const error = await call.then(
    () => assert.fail(`it should have been ${code}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof LapseError, String(error));
  assert.equal(error.code, code);
  return error;
}

test("the package and the server are of one version", async () => {
  assert.equal((await lapse.getHealth()).version, VERSION);
});

test("a registration is idempotent by type and key, and another body is refused with the timer", async () => {
  const first: Timer = await lapse.registerTimer(order("same"));
  assert.equal(first.state, "scheduled");
  const again = await lapse.registerTimer(order("same"));
  assert.equal(again.id, first.id);
  assert.equal(again.version, first.version);
  const error = await refused("key_conflict", lapse.registerTimer(order("same", { delay: "2h" })));
  assert.equal(error.status, 409);
  assert.equal(error.timer?.id, first.id);
  assert.equal(error.requestId, error.problem?.request_id);
});

test("resolve wins before the timer is due, and is too late after", async () => {
  const early = await lapse.registerTimer(order("early"));
  const resolved = await lapse.resolveTimer({ id: early.id }, { reason: "paid" }, { idempotencyKey: "m-1", ifVersion: early.version });
  assert.equal(resolved.state, "resolved");
  assert.equal((await lapse.resolveTimer({ id: early.id })).state, "resolved");
  const { items } = await lapse.listTimerEvents({ id: early.id });
  assert.equal(items.at(-1)?.message_id, "m-1");

  const { type, key } = await lapse.registerTimer(order("late", { delay: "0s" }));
  let timer = await lapse.getTimerByKey({ type, key });
  for (let tries = 0; timer.state !== "closed" && tries < 200; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    timer = await lapse.getTimerByKey({ type, key });
  }
  assert.equal(timer.state, "closed");
  const error = await refused("too_late", lapse.resolveTimerByKey({ type, key }, { reason: "paid" }));
  assert.equal(error.timer?.state, "closed");
});

test("a stale version is refused", async () => {
  const { id, version } = await lapse.registerTimer(order("stale"));
  await lapse.rescheduleTimer({ id }, { delay: "3h" });
  const error = await refused("version_conflict", lapse.cancelTimer({ id }, {}, { ifVersion: version }));
  assert.equal(error.status, 412);
});

test("a list is walked over its pages, each timer once", async () => {
  const keys = Array.from({ length: 7 }, (_, i) => `page-${i}`);
  const labels = { run };
  const { results } = await lapse.registerTimers({ timers: keys.map((key) => order(key, { labels })) });
  assert.deepEqual(results.map((r) => r.status), keys.map(() => 201));
  const seen: string[] = [];
  for await (const timer of paginate(lapse.listTimers, { type: "order-timeout", label: `run=${run}`, state: ["scheduled", "failed"], limit: 3 })) {
    seen.push(timer.key);
  }
  assert.deepEqual(seen.sort(), keys.map((key) => `${run}-${key}`).sort());
});

test("a problem is a typed error, with each fault's place", async () => {
  const error = await refused("payload_invalid", lapse.registerTimer(order("bad", { payload: { order_id: 7 } })));
  assert.equal(error.status, 422);
  assert.ok(error.errors.some((fault) => fault.pointer === "/payload/order_id"), JSON.stringify(error.errors));
  await refused("unauthorized", createClient({ baseUrl, token: "nobody" }).listTimers());
  await refused("unknown_type", lapse.registerTimer(order("none", { type: "no-such-type" })));
});

test("a plugin is uploaded, and keys and integers come back as they were given", async () => {
  const plugin = await lapse.uploadPlugin(await readFile(component));
  assert.equal((await lapse.uploadPlugin(await readFile(component))).digest, plugin.digest);
  const { name } = await lapse.putType({ type: "free-form" }, { digest: plugin.digest, default_delay: "1h" });
  const key = `${run}/ä?#% 時`;
  const payload = { do: "close", big: 9007199254740993n, small: -1.5, huge: 10n ** 30n };
  await lapse.registerTimer({ type: name, key, payload });
  const timer = await lapse.getTimerByKey({ type: name, key });
  assert.equal(timer.key, key);
  assert.deepEqual(timer.payload, payload);
  await assert.rejects(lapse.getTimerByKey({ type: name, key: ".." }), TypeError);
});

test("text and bytes are sent and read as what they are", async () => {
  assert.match(await lapse.getMetrics(), /^lapse_/m);
  const error = await refused("plugin_invalid", lapse.uploadPlugin(new Uint8Array([0, 1, 2])));
  assert.equal(error.status, 422);
});

test("a stream tells what changes, of the topics that are asked for, until it is left", async () => {
  const key = `${run}-streamed`;
  const seen: string[] = [];
  for await (const { event, data } of events(await lapse.streamEvents({ topics: ["timers", "stats"] }))) {
    seen.push(event);
    if (event === "hello") await lapse.registerTimer(order("streamed", { key }));
    if (event === "stats") assert.equal(typeof (data as Stats).window_ms, "number");
    if (event === "timers" && (data as { changed: { key: string }[] }).changed.some((timer) => timer.key === key)) break;
  }
  assert.deepEqual([seen[0], new Set(seen)], ["hello", new Set(["hello", "stats", "timers"])]);
  await refused("unauthorized", createClient({ baseUrl, token: "nobody" }).streamEvents());
});

test("a stream is read whatever its pieces, and one that breaks off is an error", async () => {
  const told = (response: ServerResponse) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const text = Buffer.from('\uFEFFevent: a\r\ndata: {"big":9007199254740993,\r\ndata: "text":"é\u2028時"}\r\n\r\n: ping\n\ndata:1\n\n');
    // One byte at a time, so that letters and line ends are cut.
    for (const byte of text) response.write(Buffer.of(byte));
    setTimeout(() => response.destroy(), 50);
  };
  await scripted([told], async (url) => {
    const seen: unknown[] = [];
    await assert.rejects(async () => {
      for await (const event of events(await createClient({ baseUrl: url }).streamEvents())) seen.push(event);
    }, LapseConnectionError);
    assert.deepEqual(seen, [
      { event: "a", data: { big: 9007199254740993n, text: "é\u2028時" } },
      { event: "message", data: 1 },
    ]);
  });
});

/** A server that gives these answers in turn, the last one for ever, and counts the calls. */
async function scripted(answers: ((response: ServerResponse) => void)[], body: (url: string, calls: () => string[]) => Promise<void>) {
  const calls: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    let text = "";
    request.on("data", (chunk) => (text += chunk));
    request.on("end", () => {
      calls.push(text);
      (answers[Math.min(calls.length, answers.length) - 1] ?? assert.fail())(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await body(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, () => calls);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const problem = (status: number, code: string, retryAfter?: string) => (response: ServerResponse) => {
  const headers = { "content-type": "application/problem+json", ...(retryAfter && { "retry-after": retryAfter }) };
  response.writeHead(status, headers).end(JSON.stringify({ type: "t", title: "t", status, detail: "d", code, request_id: "r" }));
};
const done = (response: ServerResponse) => response.writeHead(200, { "content-type": "application/json" }).end('{"id":"1"}');
const cut = (response: ServerResponse) => response.destroy();

test("a busy server is asked again, as it asks for, if that is safe", async () => {
  await scripted([problem(503, "unavailable", "1"), problem(429, "rate_limited"), cut, done], async (url, calls) => {
    const started = performance.now();
    const timer = await createClient({ baseUrl: url }).registerTimer(order("again"));
    assert.equal(timer.id, "1");
    assert.equal(calls().length, 4);
    assert.equal(new Set(calls()).size, 1, "each attempt sends the same body");
    assert.ok(performance.now() - started >= 1000, "Retry-After is waited for");
  });
  await scripted([problem(503, "unavailable", "0")], async (url, calls) => {
    await refused("unavailable", createClient({ baseUrl: url, retry: { tries: 2 } }).getTimer({ id: "1" }));
    assert.equal(calls().length, 2);
    await refused("unavailable", createClient({ baseUrl: url }).createKey({ name: "k", role: "reader" }));
    assert.equal(calls().length, 3, "what is not safe to repeat is not repeated");
  });
});

test("a wait that is too long for a timer is not begun", async () => {
  await scripted([problem(503, "unavailable", "99999999")], async (url, calls) => {
    const error = await refused("unavailable", createClient({ baseUrl: url }).getTimer({ id: "1" }));
    assert.equal(error.retryAfterMs, 99_999_999_000);
    assert.equal(calls().length, 1);
  });
  assert.throws(() => createClient({ baseUrl, retry: { maxWaitMs: 2 ** 31 } }), RangeError);
  assert.throws(() => createClient({ baseUrl, timeoutMs: Number.POSITIVE_INFINITY }), RangeError);
  await assert.rejects(lapse.getTimer({ id: "1" }, { timeoutMs: 2 ** 31 }), RangeError);
});

test("a server that is away, or silent, is an error of its own", async () => {
  const away = createClient({ baseUrl: "http://127.0.0.1:1", retry: { tries: 1 } });
  await assert.rejects(away.listTimers(), LapseConnectionError);
  await scripted([() => undefined], async (url) => {
    const silent = createClient({ baseUrl: url, retry: { tries: 1 } });
    await assert.rejects(silent.getTimer({ id: "1" }, { timeoutMs: 50 }), LapseConnectionError);
    const aborted = silent.getTimer({ id: "1" }, { signal: AbortSignal.timeout(50) });
    await assert.rejects(aborted, (error: Error) => error.name === "TimeoutError");
  });
  assert.throws(() => createClient({ baseUrl: "nowhere" }), TypeError);
});

/** What must not compile: each line is an error of its own, which the compiler has to find. */
export function typed(): void {
  // @ts-expect-error a timer has a key
  void lapse.registerTimer({ type: "t", payload: {} });
  // @ts-expect-error there is no such state
  void lapse.listTimers({ state: ["asleep"] });
  // @ts-expect-error which timer?
  void lapse.getTimer();
  // @ts-expect-error an answer has no such member
  void lapse.getHealth().then((health) => health.nothing);
}
