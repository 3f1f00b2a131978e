/**
 * How long the server takes for each call that a page makes, seen from outside: with few timers, with many, and how many
 * times longer. Usage: node timings.mjs NAME [DATABASE]
 */
import { order, Server } from "../../tests/e2e/support/server.mjs";
import { Shop } from "../../tests/e2e/support/shop.mjs";
import { bench, pause, quantile, table } from "./shared.mjs";

const [name, database] = process.argv.slice(2);
const FEW = 10_000;
const MANY = Number(process.env.COUNT ?? 1_000_000);
const TIMES = 40;
const GOAL_MS = 100;
/** Compensations that have died, so that there are groups. */
const DEAD = 2_000;

const server = await Server.start(database ? { LAPSE_STORE__DATABASE: database } : {});
const shop = await Shop.start();
try {
  await shop.type(server, "refused", { default_delay: "1s" });
  shop.status = 404;
  await die();
  await fill(FEW);
  const few = await measure();
  await fill(MANY - FEW);
  await pause(15_000); // what the load itself left to be cleared up
  const many = await measure();
  console.log(`\n# ${name}, ${MANY.toLocaleString("en")} timers: milliseconds of each call, ${TIMES} times, and beside ${FEW.toLocaleString("en")} timers`);
  table(
    ["call", "p50", "p99", "slowest", `p50 of ${FEW}`, "ratio"],
    many.map(({ what, ms }, n) => {
      const [p50, before] = [quantile(ms, 0.5), quantile(few[n].ms, 0.5)];
      return [what, p50.toFixed(1), quantile(ms, 0.99).toFixed(1), Math.max(...ms).toFixed(1), before.toFixed(1), (p50 / before).toFixed(1)];
    }),
  );
  const over = many.filter(({ ms }) => quantile(ms, 0.99) > GOAL_MS).map(({ what }) => what);
  console.log(over.length === 0 ? `# none takes ${GOAL_MS} ms` : `# over ${GOAL_MS} ms: ${over.join(", ")}`);
} finally {
  await server.stop();
  await shop.stop();
}

/** Some due soon, most later, and a part of them settled already. */
async function fill(count) {
  const register = (share, delay) => bench(server, "register", "--count", String(Math.ceil(count * share)), "--batch", "1000", "--concurrency", "4", "--delay", delay);
  await register(0.1, "45m");
  await register(0.5, "6h");
  await register(0.3, "9d");
  await bench(server, "expire", "--rate", String(Math.max(1, Math.ceil((count * 0.1) / 50))), "--seconds", "50", "--ahead", "30s");
}

async function die() {
  for (let from = 0; from < DEAD; from += 500) {
    const timers = Array.from({ length: 500 }, (_, n) => ({ type: "refused", key: `refused-${from + n}`, payload: order(`refused-${from + n}`) }));
    await server.call("POST", "/v1/timers/batch", { timers });
  }
  await server.until("/v1/stats", (s) => s.compensations.dead.count >= DEAD, 120_000);
}

async function measure() {
  const first = await server.call("GET", "/v1/timers?state=scheduled&order=due_asc&limit=1");
  const { id, key, type } = first.items[0];
  const list = "/v1/timers?limit=100&payload=false";
  const deep = async () => {
    let cursor;
    for (let n = 0; n < 20; n += 1) cursor = (await server.call("GET", `${list}${cursor ? `&cursor=${cursor}` : ""}`)).next_cursor ?? cursor;
    return cursor;
  };
  const dead = (await server.call("GET", "/v1/compensations?state=dead&limit=1")).items[0].id;
  const now = Date.now();
  const at = (ms) => encodeURIComponent(new Date(now + ms).toISOString());
  const calls = [
    ["overview: stats", "/v1/stats"],
    ["overview: forecast", "/v1/forecast"],
    ["timers: all", list],
    ["timers: scheduled, soonest first", `${list}&state=scheduled&order=due_asc`],
    ["timers: overdue", `${list}&state=scheduled&state=firing&expired=true&order=due_asc`],
    ["timers: failed", `${list}&state=failed`],
    ["timers: closed", `${list}&state=closed`],
    ["timers: of a type", `${list}&type=${type}`],
    ["timers: due within an hour", `${list}&due_after=${at(0)}&due_before=${at(3_600_000)}`],
    ["timers: with a label that none has", `${list}&label=no%3Dsuch`],
    ["timers: page 21", `${list}&cursor=${await deep()}`],
    ["search: a key", `/v1/timers?limit=10&payload=false&key=${encodeURIComponent(key)}`],
    ["search: the start of a key", `/v1/timers?limit=10&payload=false&key_prefix=bench`],
    ["timer", `/v1/timers/${id}`],
    ["timer: events", `/v1/timers/${id}/events?limit=500`],
    ["timer: why", `/v1/timers/${id}/explain`],
    ["timer: compensations", `/v1/compensations?timer_id=${id}&limit=200`],
    ["types", "/v1/types?limit=500"],
    ["type: revisions", `/v1/types/${type}/revisions?limit=500`],
    ["compensations: dead, to be grouped", "/v1/compensations?state=dead&limit=500"],
    ["compensations: all", "/v1/compensations?limit=100"],
    ["compensations: pending of a kind", "/v1/compensations?state=pending&kind=release_inventory&limit=100"],
    ["compensation", `/v1/compensations/${dead}`],
  ];
  const results = [];
  for (const [what, where] of calls) {
    const ms = [];
    for (let n = 0; n < TIMES; n += 1) {
      const began = performance.now();
      await server.call("GET", where);
      ms.push(performance.now() - began);
    }
    results.push({ what, ms });
  }
  return results;
}
