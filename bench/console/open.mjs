/**
 * A page left open while timers expire: how its heap grows, and what it costs the server, in turns with no page and with
 * one that would poll each second for what the stream tells.
 */
import { openBrowser, Tab } from "../../tests/e2e/support/browser.mjs";
import { Server } from "../../tests/e2e/support/server.mjs";
import { bench, cpuMs, median, pause, residentMib, table } from "./shared.mjs";

const MINUTES = Number(process.env.MINUTES ?? 10);
const RATE = Number(process.env.RATE ?? 1000);
/** Of each turn, and how often each comes. */
const TURN_MS = 15_000;
const TURNS = Number(process.env.TURNS ?? 5);
/** A page that has just come up is still filling its charts. */
const WARM_MS = 60_000;

const [server, browser] = await Promise.all([Server.start(), openBrowser()]);
try {
  const seconds = Math.ceil((3 * TURNS * (TURN_MS + 2_000) + 2 * WARM_MS) / 1000 + MINUTES * 60);
  console.log(`\n# ${RATE} expiries a second for ${seconds} s`);
  const load = bench(server, "expire", "--rate", String(RATE), "--seconds", String(seconds), "--ahead", `${20 + Math.ceil((RATE * seconds) / 10_000)}s`);
  await server.until("/v1/stats", (stats) => stats.rates.closed > RATE / 2, 600_000);
  await costs();
  await heap();
  const { closed, lateness } = await load;
  console.log(`# the load: ${closed} closed, lateness p50 ${lateness?.p50_ms ?? "?"} ms, p99 ${lateness?.p99_ms ?? "?"} ms`);
} finally {
  await browser.close();
  await server.stop();
}

/** The server's CPU, in percent of a core: nobody, a stream, and a page that polls, again and again in turns. */
async function costs() {
  const headers = { authorization: `Bearer ${server.token}` };
  const kinds = {
    "nobody looks": async () => () => undefined,
    "a stream": async () => {
      const abort = new AbortController();
      const response = await fetch(`${server.url}/v1/events/stream`, { headers, signal: abort.signal });
      const reading = (async () => {
        for await (const _ of response.body);
      })().catch(() => undefined);
      return async () => {
        abort.abort();
        await reading;
      };
    },
    "polling": async () => {
      const poll = async () => {
        await server.call("GET", "/v1/stats");
        await server.call("GET", "/v1/timers?limit=100&payload=false");
        await server.call("GET", "/v1/compensations?limit=100");
      };
      const timer = setInterval(() => void poll().catch(() => undefined), 1000);
      return () => clearInterval(timer);
    },
  };
  const percent = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [kind, open] of Object.entries(kinds)) {
      const close = await open();
      await pause(2_000);
      const [cpu, began] = [cpuMs(server.child.pid), performance.now()];
      await pause(TURN_MS);
      percent[kind].push(((cpuMs(server.child.pid) - cpu) / (performance.now() - began)) * 100);
      await close();
    }
  }
  const base = median(percent["nobody looks"]);
  // In each turn against the turn beside it, so that what drifts does not count.
  const more = (kind) => median(percent[kind].map((p, n) => p - percent["nobody looks"][n]));
  table(
    ["the server's CPU, % of a core", "median", "least", "most", "more than nobody"],
    Object.entries(percent).map(([kind, all]) => [kind, median(all).toFixed(1), Math.min(...all).toFixed(1), Math.max(...all).toFixed(1), kind === "nobody looks" ? "" : more(kind).toFixed(2)]),
  );
  console.log(`# the stream costs ${more("a stream").toFixed(2)}% of a core (polling ${more("polling").toFixed(2)}%) beside ${base.toFixed(1)}%`);
}

/** The heaps of the two pages that the stream changes most, after a collection, each minute. */
async function heap() {
  const tabs = [];
  for (const [name, at] of [["overview", "/"], ["timers", "/timers"]]) {
    const tab = await Tab.open(browser, server, { at });
    const session = await tab.context.newCDPSession(tab.page);
    await session.send("HeapProfiler.enable");
    tabs.push({ name, tab, session, mib: [], nodes: [] });
  }
  const timers = tabs[1].tab;
  await timers.page.locator("tr[data-row]").first().waitFor();
  await timers.page.evaluate(() => window.scrollTo(0, 400));
  await pause(WARM_MS);
  const top = () => timers.page.evaluate(() => document.elementFromPoint(500, 400)?.closest("tr")?.querySelector("a")?.textContent);
  const under = await top();
  let moved = 0;
  for (let minute = 0; minute <= MINUTES; minute += 1) {
    for (const { session, mib, nodes } of tabs) {
      await session.send("HeapProfiler.collectGarbage");
      mib.push((await session.send("Runtime.getHeapUsage")).usedSize / 2 ** 20);
      nodes.push((await session.send("Memory.getDOMCounters")).nodes);
    }
    if ((await top()) !== under) moved += 1;
    if (minute < MINUTES) await pause(60_000);
  }
  table(
    ["heap after a collection, MiB", "first", ...Array.from({ length: MINUTES }, (_, n) => `${n + 1} min`), "ratio", "nodes first", "nodes last"],
    tabs.map(({ name, mib, nodes }) => [name, ...mib.map((m) => m.toFixed(1)), (mib.at(-1) / mib[0]).toFixed(2), nodes[0], nodes.at(-1)]),
  );
  console.log(`# the row under the pointer moved ${moved} times; the server is at ${residentMib(server.child.pid).toFixed(0)} MiB`);
  for (const { tab } of tabs) await tab.close();
}
