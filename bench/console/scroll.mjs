/**
 * How smoothly the list of timers scrolls to its 2,000th row, all pages fetched on the way: the time between frames, beside
 * that of a plain page with nothing on it in the same browser. Usage: node scroll.mjs
 */
import { openBrowser, Tab } from "../../tests/e2e/support/browser.mjs";
import { Server } from "../../tests/e2e/support/server.mjs";
import { bench, pause, quantile, table } from "./shared.mjs";

const TIMERS = Number(process.env.COUNT ?? 1_000_000);
/** In each frame: a wheel that is turned fast, 3,600 pixels a second at sixty frames, and a flick of five times that. */
const STEPS_PX = [60, 300];
const LONGEST_MS = 90_000;
/** A frame of sixty a second, and half of the next. */
const DROPPED_MS = 25;

const [server, browser] = await Promise.all([Server.start(), openBrowser()]);
try {
  await bench(server, "register", "--count", String(TIMERS), "--batch", "1000", "--concurrency", "4", "--delay", "6h");
  await pause(15_000); // what the load itself left to be cleared up
  const plain = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await plain.newPage();
  await page.setContent(`<body style="margin:0"><div style="height:72000px">nothing</div>`);
  const rows = [["a plain page", await scroll(page, STEPS_PX[0], 1200)]];
  await plain.close();
  for (const width of [1280, 360]) {
    for (const step of STEPS_PX) {
      const tab = await Tab.open(browser, server, { at: "/timers", width });
      await tab.page.getByText("bench-").first().waitFor();
      rows.push([`timers, ${width} px wide, ${step} px a frame`, await scroll(tab.page, step)]);
      await tab.close();
    }
  }
  console.log(`\n# ${TIMERS.toLocaleString("en")} timers: milliseconds between frames`);
  table(
    ["page", "frames", "p50", "p99", "longest", `over ${DROPPED_MS}`, "script, ms a frame", "layout and style"],
    rows.map(([name, { gaps, script, layout }]) => [
      name,
      gaps.length,
      quantile(gaps, 0.5).toFixed(1),
      quantile(gaps, 0.99).toFixed(1),
      Math.max(...gaps).toFixed(1),
      gaps.filter((gap) => gap > DROPPED_MS).length,
      (script / gaps.length).toFixed(2),
      (layout / gaps.length).toFixed(2),
    ]),
  );
} finally {
  await browser.close();
  await server.stop();
}

/** Scrolls until the list says that it is at its end, or so many frames; what the page's own thread spent is told apart. */
async function scroll(page, step, most = Number.MAX_SAFE_INTEGER) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  const spent = async () => Object.fromEntries((await session.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value * 1000]));
  const before = await spent();
  const gaps = await page.evaluate(
    async ([step, longest, most]) => {
      const gaps = [];
      let last = performance.now();
      const end = last + longest;
      while (last < end && gaps.length < most && !document.querySelector(".list-end")) {
        window.scrollBy(0, step);
        await new Promise((resolve) => requestAnimationFrame(resolve));
        const now = performance.now();
        gaps.push(now - last);
        last = now;
      }
      return gaps;
    },
    [step, LONGEST_MS, most],
  );
  const after = await spent();
  const more = (name) => after[name] - before[name];
  return { gaps, script: more("ScriptDuration"), layout: more("LayoutDuration") + more("RecalcStyleDuration") };
}
