/** What the server tells by itself: figures, why a timer waits, pauses, and rows that change under the eye. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { openBrowser, Tab } from "./support/browser.mjs";
import { order, Server } from "./support/server.mjs";
import { Shop } from "./support/shop.mjs";

let server, browser, shop;

before(async () => {
  [server, browser, shop] = await Promise.all([Server.start(), openBrowser(), Shop.start()]);
  await shop.type(server, "quiet");
  await shop.type(server, "shut");
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await shop?.stop();
});

const register = (key, more = {}) => server.call("POST", "/v1/timers", { type: "quiet", key, payload: order(key), delay: "1h", ...more });
const dialog = (tab) => tab.page.getByRole("dialog");

test("the overview shows what happens, as it happens", async () => {
  const tab = await Tab.open(browser, server);
  await tab.page.getByRole("heading", { name: "Overview" }).waitFor();
  await tab.sees("Live");
  for (let n = 0; n < 20; n += 1) await register(`live-${n}`, { delay: "100ms" });
  // A rate is over a minute at most: twenty stay to be seen for long enough.
  await tab.page.waitForFunction(() => /^0\.[1-9]|^[1-9]/.test(document.querySelector(".figure dd, .figure-value")?.textContent?.trim() ?? ""));
  await register("ahead", { delay: "30m" });
  await tab.page.reload();
  await tab.sees("Due in the next hour");
  await tab.page.locator(".bar span").first().waitFor();
  await tab.axe("live overview");
  await tab.shot("overview-live");
  await tab.close();
});

test("a pause is made, met and ended, and a timer says that it waits for it", async () => {
  const tab = await Tab.open(browser, server, { at: "/types/shut" });
  await tab.button("Pause").click();
  const verb = dialog(tab).getByRole("button", { name: "Pause type" });
  assert.equal(await verb.getAttribute("aria-disabled"), "true", "not without a reason");
  await dialog(tab).getByLabel("Reason").fill("the bank is shut");
  await dialog(tab).getByLabel("Until (optional)").fill("soon");
  assert.equal(await verb.getAttribute("aria-disabled"), "true", "not until some time that is none");
  await dialog(tab).getByLabel("Until (optional)").fill("2h");
  await tab.shot("pause");
  await verb.click();
  await dialog(tab).waitFor({ state: "detached" });
  await tab.sees("the bank is shut");

  const { id } = await register("waits", { type: "shut", delay: "300ms" });
  await tab.go(`/timers/${id}`);
  await tab.page.locator(".why-sentence", { hasText: "Its type shut is paused: the bank is shut" }).waitFor();
  await tab.page.locator(".why-check-blocking", { hasText: "Resume it" }).waitFor();
  await tab.axe("a timer that waits");
  await tab.shot("why-paused");
  // From a cold start: the overview leads to what is overdue, and a row to why.
  await tab.go("/");
  await tab.sees("Paused: shut");
  await tab.page.getByRole("link", { name: /^Overdue timers: \d/ }).click();
  await tab.page.locator("tr[data-row] .col-key a", { hasText: "waits" }).click();
  await tab.page.locator(".why-sentence", { hasText: "Its type shut is paused: the bank is shut" }).waitFor();
  await tab.page.locator(".fix").getByRole("link", { name: "Open the type" }).click();
  await tab.page.getByRole("heading", { name: "shut" }).waitFor();

  await tab.go("/types/shut");
  await tab.button("Resume").click();
  await dialog(tab).getByRole("button", { name: "Resume type" }).click();
  await dialog(tab).waitFor({ state: "detached" });
  await server.until(`/v1/timers/${id}`, (t) => t.state === "closed");
  await tab.close();
});

test("a timer that waits says when it is due, and its page changes when it ends", async () => {
  const { id } = await register("due-later", { delay: "40m" });
  const tab = await Tab.open(browser, server, { at: `/timers/${id}` });
  await tab.page.locator(".why-sentence", { hasText: /It is due in (39|40) minutes/ }).waitFor();
  await tab.shot("why-not-due");
  await server.call("POST", `/v1/timers/${id}/resolve`, { reason: "paid" });
  await tab.sees("Resolved");
  await tab.close();
});

test("what is live is the namespace's that is looked at, and nothing is while the tab is hidden", async () => {
  await register("of-this-namespace");
  await server.call("POST", "/v1/namespaces", { name: "bare" });
  const tab = await Tab.open(browser, server);
  const scheduled = (n) => tab.page.locator(".figure-note", { hasText: n === undefined ? /^[1-9]\d* scheduled$/ : `${n} scheduled` }).waitFor();
  await scheduled();
  const streams = () => tab.page.waitForRequest((request) => request.url().includes("/v1/events/stream"));
  let next = streams();
  await tab.page.getByLabel("Namespace").selectOption("bare");
  assert.equal((await next).headers()["lapse-namespace"], "bare");
  await scheduled(0);
  await tab.sees("Live");
  // What the address names is what is asked for, also on the way back and forth.
  next = streams();
  await tab.page.goBack();
  assert.equal((await next).headers()["lapse-namespace"], undefined);
  await scheduled();
  assert.equal(await tab.page.getByLabel("Namespace").inputValue(), "default");
  next = streams();
  await tab.page.goForward();
  assert.equal((await next).headers()["lapse-namespace"], "bare");
  await scheduled(0);
  next = streams();
  await tab.page.getByLabel("Namespace").selectOption("default");
  assert.equal((await next).headers()["lapse-namespace"] ?? "default", "default");
  await scheduled();

  const hide = (hidden) =>
    tab.page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const closed = tab.page.waitForEvent("requestfailed", (request) => request.url().includes("/v1/events/stream"));
  await hide(true);
  await closed;
  await tab.sees("Paused while hidden");
  // On return what was missed is read anew, though no event told of it.
  next = streams();
  const read = tab.page.waitForResponse((answer) => answer.url().includes("/v1/stats"));
  await hide(false);
  await Promise.all([next, read]);
  await tab.page.getByText("Live", { exact: true }).waitFor();
  await tab.close();
});

test("what another node did, of which no event tells, shows all the same", async () => {
  const { id } = await register("moved-elsewhere");
  const first = (page) => page.route("**/v1/events/stream", (route) => route.fulfill({ status: 404, body: "{}" }));
  const tab = await Tab.open(browser, server, { at: `/timers/${id}`, first });
  await tab.page.locator("header .badge", { hasText: "Scheduled" }).waitFor();
  await server.call("POST", `/v1/timers/${id}/resolve`);
  await tab.page.locator("header .badge", { hasText: "Resolved" }).waitFor();
  await tab.close();
});

test("a token that is put into the address of an open tab is taken, and taken out", async () => {
  const tab = await Tab.open(browser, server, { token: "" });
  await tab.page.getByLabel("API key").waitFor();
  await tab.page.evaluate((token) => {
    location.hash = `token=${token}`;
  }, server.token);
  await tab.page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(await tab.page.evaluate(() => location.hash), "");
  await tab.close();
});

test("expiries beyond the rows that are held are no news", async () => {
  await shop.type(server, "far");
  const far = Array.from({ length: 120 }, (_, n) => ({ type: "far", key: `far-${n}`, payload: order(`far-${n}`), due_at: `2035-01-01T00:0${n % 10}:00Z` }));
  await server.call("POST", "/v1/timers/batch", { timers: far });
  const tab = await Tab.open(browser, server, { at: "/timers?type=far" });
  await tab.page.locator("tr[data-row]").first().waitFor();
  await tab.sees("Live");
  const { id } = await register("near", { type: "far", delay: "200ms" });
  await server.until(`/v1/timers/${id}`, (timer) => timer.state === "closed");
  await server.call("POST", "/v1/timers", { type: "far", key: "farthest", payload: order("farthest"), due_at: "2036-01-01T00:00:00Z" });
  // The one that comes first in the list is news; the one that expired is not.
  await tab.button("1 new").waitFor();
  await tab.close();
});

test("rows never move under the pointer: what is new is counted, and comes when asked for; a row changes where it stands", async () => {
  const label = "type=shut&due=2030-01-01T00:00:00Z..2030-01-02T00:00:00Z";
  const due_at = (s) => ({ type: "shut", delay: undefined, due_at: `2030-01-01T12:00:0${s}.000Z` });
  const { id } = await register("row-5", due_at(5));
  await register("row-3", due_at(3));
  const tab = await Tab.open(browser, server, { at: `/timers?${label}` });
  const keys = async () => (await tab.page.locator("tr[data-row] .col-key a").allTextContents()).map((k) => k.trim());
  await tab.page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 2);
  await tab.page.getByText("Live", { exact: true }).waitFor();
  assert.deepEqual(await keys(), ["row-5", "row-3"]);
  await register("row-4", due_at(4));
  await register("row-6", due_at(6));
  await server.call("POST", `/v1/timers/${id}/resolve`, {});
  await tab.button("2 new").waitFor();
  await tab.page.locator("tr[data-row='0']", { hasText: "resolved" }).waitFor();
  assert.deepEqual(await keys(), ["row-5", "row-3"]);
  await tab.button("2 new").click();
  await tab.page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 4);
  assert.deepEqual(await keys(), ["row-6", "row-5", "row-4", "row-3"]);
  await tab.close();
});

test("keys are found by their start, and a list is turned round", async () => {
  for (const [key, delay] of [["B17-a", "3h"], ["B17-b", "1h"], ["B18", "2h"]]) await register(key, { delay });
  const tab = await Tab.open(browser, server, { at: "/timers?key=B1*" });
  const keys = () => tab.page.locator("tr[data-row] .col-key a").allTextContents();
  await tab.page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 3);
  assert.deepEqual((await keys()).map((k) => k.trim()), ["B17-a", "B17-b", "B18"]);
  await tab.go("/timers?state=scheduled&type=quiet");
  await tab.button("By due time, soonest first").click();
  await tab.page.waitForURL(/order=due_desc/);
  await tab.page.waitForFunction(() => document.querySelector("tr[data-row] .col-key a")?.textContent?.includes("B17-a"));
  await tab.close();
});
