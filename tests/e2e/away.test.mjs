/** The server goes away and comes back; many tabs; long lists. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openBrowser, Tab } from "./support/browser.mjs";
import { order, Server } from "./support/server.mjs";

let server, browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), openBrowser()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fill(count, prefix) {
  for (let from = 0; from < count; from += 500) {
    const timers = Array.from({ length: Math.min(500, count - from) }, (_, i) => {
      const key = `${prefix}-${String(from + i).padStart(5, "0")}`;
      return { type: "order-timeout", key, delay: `${3600 + from + i}s`, payload: order(key) };
    });
    await server.call("POST", "/v1/timers/batch", { timers });
  }
}

test("the server stops and starts again: banner, actions off, recovery, no row twice", { timeout: 300_000 }, async () => {
  await fill(120, "stay");
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  await server.down("SIGKILL");
  await tab.button("Refresh").click();
  await tab.page.getByText(/The server does not answer\. What you see is as of \d\d:\d\d:\d\d/).waitFor();
  assert.ok((await tab.page.locator("tr[data-row]").count()) > 5, "what was there is still there");
  assert.equal(await tab.button("Register").getAttribute("aria-disabled"), "true");
  await tab.shot("away");
  await tab.axe("away");
  await server.up();
  await tab.page.getByText("The server does not answer").first().waitFor({ state: "detached" });
  await tab.button("Refresh").click();
  await tab.page.waitForTimeout(1000);
  const keys = await tab.page.locator("tr[data-row] .col-key a").allTextContents();
  assert.equal(new Set(keys).size, keys.length, "a row is there twice");
  assert.equal(await tab.button("Register").getAttribute("aria-disabled"), null);
  await tab.close();
});

test("ten thousand timers: pages by cursor, few rows in the page, at most 2,000 held", { timeout: 600_000 }, async () => {
  await fill(10_000, "many");
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  const bottom = () => tab.page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  for (let n = 0; n < 60; n += 1) {
    await bottom();
    await tab.page.waitForTimeout(150);
    if (await tab.page.getByText("rows are held, which is the most").count()) break;
  }
  await tab.sees("2,000 rows are held, which is the most.");
  assert.ok((await tab.page.locator("tr[data-row]").count()) < 120, "rows are not virtual");
  await tab.button("Go on from here").click();
  await tab.page.waitForURL(/cursor=/);
  await tab.button("Back to the start").waitFor();
  await tab.page.locator("tr[data-row]").first().waitFor();
  const keys = await tab.page.locator("tr[data-row] .col-key a").allTextContents();
  await tab.page.reload();
  await tab.page.locator("tr[data-row]").first().waitFor();
  assert.equal((await tab.page.locator("tr[data-row] .col-key a").allTextContents())[0], keys[0]);
  await tab.close();
});

test("seven tabs of one browser all load", { timeout: 300_000 }, async () => {
  const first = await Tab.open(browser, server);
  await first.page.getByRole("heading", { name: "Overview" }).waitFor();
  const others = [];
  for (let n = 0; n < 6; n += 1) {
    const page = await first.context.newPage();
    await page.goto(`${server.url}/timers#token=${server.token}`);
    others.push(page);
  }
  for (const page of others) {
    await page.bringToFront();
    await page.locator("tr[data-row]").first().waitFor({ timeout: 60_000 });
  }
  await first.close();
});

test("rows by keys: j, k, x and Enter; at 400% zoom nothing is cut off", { timeout: 300_000 }, async () => {
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("k");
  await tab.page.keyboard.press("x");
  await tab.sees("1 selected");
  await tab.page.keyboard.press("?");
  await tab.page.getByRole("dialog").getByText("Next and previous row").waitFor();
  await tab.page.keyboard.press("Escape");
  await tab.close();
  // 1,280 px at 400% are 320.
  const zoomed = await Tab.open(browser, server, { width: 320, height: 256, at: "/timers" });
  await zoomed.page.locator("tr[data-row]").first().waitFor({ state: "attached" });
  await zoomed.fits("timers at 400%");
  await zoomed.close();
});
