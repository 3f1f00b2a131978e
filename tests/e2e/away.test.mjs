/** The server goes away and comes back; many tabs; long lists. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openBrowser, PATIENCE_MS, Tab } from "./support/browser.mjs";
import { order, Server } from "./support/server.mjs";

let server, browser;

before(async () => {
  [server, browser] = await Promise.all([Server.start(), openBrowser()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function until(wanted, what, ms = PATIENCE_MS) {
  const end = Date.now() + ms;
  while (!(await wanted())) {
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

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
  // All is read anew by itself, and told of from then on.
  await tab.page.getByText("Live", { exact: true }).waitFor();
  await until(async () => (await tab.page.locator("tr[data-row]").count()) > 5, "the rows are there");
  const shown = tab.page.locator("tr[data-row]").first();
  const key = await shown.locator(".col-key a").textContent();
  const [timer] = (await server.call("GET", `/v1/timers?key=${key}`)).items;
  await server.call("POST", `/v1/timers/${timer.id}/cancel`);
  await shown.locator(".badge", { hasText: "Cancelled" }).waitFor({ timeout: 10_000 });
  const keys = await tab.page.locator("tr[data-row] .col-key a").allTextContents();
  assert.equal(new Set(keys).size, keys.length, "a row is there twice");
  assert.equal(await tab.button("Register").getAttribute("aria-disabled"), null);
  await tab.close();
});

test("a page whose code cannot be fetched says so in its place, and comes by itself when the server is back", { timeout: 300_000 }, async () => {
  // The code of one page is held back; all others come soon after the start, one after the other and it among the last.
  let asked;
  const held = new Promise((resolve) => (asked = resolve));
  const first = (page) => page.route(/assets\/compensations-/, (route) => route.abort().then(asked));
  const tab = await Tab.open(browser, server, { at: "/timers", first });
  await tab.page.locator("tr[data-row]").first().waitFor();
  await held;
  await server.down("SIGKILL");
  await tab.page.getByRole("link", { name: "Compensations" }).click();
  await tab.sees("This page could not be fetched");
  await tab.sees("It is fetched once the server answers again.");
  await tab.shot("page-not-fetched");
  // What was fetched beforehand is there.
  await tab.page.getByRole("link", { name: "Types" }).click();
  await tab.page.getByRole("heading", { name: "Types" }).waitFor();
  await tab.page.getByRole("link", { name: "Compensations" }).click();
  await tab.sees("This page could not be fetched");
  await tab.page.unroute(/assets\/compensations-/);
  await server.up();
  await tab.page.getByText(/^No dead compensations, checked/).waitFor();
  await tab.close();
});

test("ten thousand timers: pages by cursor, few rows in the page, at most 2,000 held", { timeout: 600_000 }, async () => {
  await fill(10_000, "many");
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  const bottom = () => tab.page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
  await until(async () => {
    await bottom();
    return (await tab.page.getByText("2,000 rows are held, which is the most.").count()) > 0;
  }, "the list is read to its bound", 4 * PATIENCE_MS);
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

test("seven windows of one browser all load, though it has connections for six; the rest take over from those that go", { timeout: 300_000 }, async () => {
  const first = await Tab.open(browser, server);
  await first.page.getByRole("heading", { name: "Overview" }).waitFor();
  const pages = [first.page];
  // All of them show, as windows side by side do: a browser without a screen hides none.
  for (let n = 0; n < 6; n += 1) {
    const page = await first.context.newPage();
    await page.goto(`${server.url}/timers#token=${server.token}`);
    await page.locator("tr[data-row]").first().waitFor({ timeout: 60_000 });
    pages.push(page);
  }
  const live = async () => {
    const words = await Promise.all(pages.map((page) => page.locator(".live-word").textContent()));
    return words.filter((word) => word === "Live").length;
  };
  await until(async () => (await live()) === 4, "four windows are live");
  // One that is not asks all the same.
  await pages[0].reload();
  await pages[0].getByText("Rate and outcomes").waitFor();
  await pages.pop().close();
  await pages.pop().close();
  await until(async () => (await live()) === 4, "others are live in their place");
  await first.close();
});

test("rows by keys: j, k, x and Enter", { timeout: 300_000 }, async () => {
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("j");
  await tab.page.keyboard.press("k");
  const second = tab.page.locator('tr[data-row="1"]');
  const key = await second.locator(".col-key a").textContent();
  await until(() => second.locator(".col-key a").evaluate((a) => a === document.activeElement), "the second row has the focus");
  await tab.page.keyboard.press("x");
  await tab.sees("1 selected");
  assert.equal(await second.getAttribute("aria-selected"), "true");
  await tab.page.keyboard.press("?");
  await tab.page.getByRole("dialog").getByText("Next and previous row").waitFor();
  await tab.page.keyboard.press("Escape");
  await second.locator(".col-key a").focus();
  await tab.page.keyboard.press("Enter");
  await tab.page.getByRole("heading", { name: key }).waitFor();
  await tab.close();
});
