/** Each page: what it shows, in both themes, on a phone, with hostile text, with nothing, and without the right. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { openBrowser, Tab } from "./support/browser.mjs";
import { order, PLUGINS, Server } from "./support/server.mjs";
import { Shop } from "./support/shop.mjs";

const SCRIPT = "<script>document.title='owned'</script>";
const RTL = "طلب-١٧ \u202Eevil";
const LONG = "k".repeat(253) + "END";
const FAR = "9999-12-31T23:59:59.000Z";

let server, browser, shop, ids;

before(async () => {
  [server, browser, shop] = await Promise.all([Server.start(), openBrowser(), Shop.start()]);
  ids = await seed();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await shop?.stop();
});

async function register(key, more = {}) {
  const timer = await server.call("POST", "/v1/timers", { type: "order-timeout", key, payload: order(key.slice(0, 60)), delay: "1h", ...more });
  return timer.id;
}

async function seed() {
  await shop.type(server, "refused");
  shop.status = 404;
  shop.says = `no such thing ${SCRIPT}`;
  const all = {
    A17: await register("A17", { delay: "500ms" }),
    paid: await register("paid"),
    script: await register(SCRIPT, { labels: { note: SCRIPT } }),
    rtl: await register(RTL),
    long: await register(LONG),
    far: await register("far", { due_at: FAR, delay: undefined }),
    days: await register("days25", { delay: "25d" }),
    dead: await register("dead", { type: "refused", delay: "500ms" }),
  };
  await server.call("POST", `/v1/timers/${all.paid}/resolve`, { reason: "paid by card" });
  await server.until(`/v1/timers/${all.A17}`, (t) => t.state === "closed");
  await server.until(`/v1/compensations?timer_id=${all.dead}`, (p) => p.items.some((c) => c.state === "dead"));
  return all;
}

const PAGES = () => [
  ["overview", "/", "Rate and outcomes"],
  ["timers", "/timers", "days25"],
  ["timer", `/timers/${ids.A17}`, "Timeline"],
  ["hostile", `/timers/${ids.script}`, "Timeline"],
  ["long", `/timers/${ids.long}`, "END"],
  ["register", "/timers/new", "The call"],
  ["types", "/types", "order-timeout-checked"],
  ["type", "/types/refused", "What it may do"],
  ["schema", "/types/refused/schema", "order_id"],
  ["revisions", "/types/refused/revisions", "In compensations"],
  ["dry-run", "/types/refused/dry-run", "no effects"],
  ["upload", "/types/upload", "Choose a file"],
  ["groups", "/compensations", "Redrive group"],
  ["dead", "/compensations?state=dead", "Latest error"],
];

for (const [theme, dark, width] of [["light", false, 1280], ["dark", true, 1280], ["phone", false, 360]]) {
  test(`every page is accessible and fits, ${theme}`, { timeout: 600_000 }, async () => {
    const tab = await Tab.open(browser, server, { dark, width, height: width === 360 ? 740 : 800 });
    for (const [name, where, shows] of PAGES()) {
      await tab.go(where);
      await tab.page.getByText(shows).first().waitFor({ state: "attached" });
      await tab.page.waitForLoadState("load");
      await tab.page.waitForTimeout(400);
      await tab.shot(`${name}-${theme}`);
      await tab.fits(`${name} (${theme})`);
      await tab.axe(`${name} (${theme})`);
    }
    await tab.close();
  });
}

test("at 400% zoom nothing is cut off", { timeout: 300_000 }, async () => {
  // 1,280 px at 400% are 320.
  const tab = await Tab.open(browser, server, { width: 320, height: 256 });
  for (const [name, where, shows] of PAGES()) {
    await tab.go(where);
    await tab.page.getByText(shows).first().waitFor({ state: "attached" });
    await tab.fits(`${name} at 400%`);
  }
  await tab.close();
});

test("the token leaves the address and lasts over a reload; a wrong one asks for another, at the same address", async () => {
  const tab = await Tab.open(browser, server, { at: `/timers/${ids.A17}` });
  await tab.sees("Timeline");
  assert.equal(await tab.page.evaluate(() => location.hash), "");
  await tab.page.reload();
  await tab.sees("Timeline");
  await tab.page.evaluate(() => sessionStorage.setItem("lapse.token", "wrong-wrong-wrong-wrong"));
  await tab.page.reload();
  await tab.sees("The server refused the key");
  await tab.axe("paste page");
  await tab.page.getByLabel("API key").fill(server.token);
  await tab.button("Open the console").click();
  await tab.sees("Timeline");
  assert.equal(new URL(tab.page.url()).pathname, `/timers/${ids.A17}`);
  await tab.close();
});

test("search finds A17 from anywhere, and its page tells the outcome", async () => {
  const tab = await Tab.open(browser, server);
  await tab.page.getByRole("heading", { name: "Overview" }).waitFor();
  await tab.page.keyboard.press("/");
  await tab.page.keyboard.type("A17");
  await tab.page.keyboard.press("Enter");
  await tab.page.getByRole("heading", { name: "A17" }).waitFor();
  await tab.sees("It expired and its plugin closed it");
  await tab.sees("Closed");
  await tab.close();
});

test("a filtered view is the same after a reload", async () => {
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.getByLabel("State", { exact: true }).selectOption("scheduled");
  await tab.page.getByLabel("Key", { exact: true }).fill("days25");
  await tab.page.keyboard.press("Enter");
  await tab.page.waitForURL(/key=days25/);
  const rows = () => tab.page.locator("tr[data-row] .col-key a").allTextContents();
  await tab.page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 1);
  const seen = await rows();
  await tab.page.reload();
  await tab.page.locator("tr[data-row]").first().waitFor();
  assert.deepEqual(await rows(), seen);
  assert.deepEqual(seen, ["days25"]);
  assert.equal(await tab.page.getByLabel("State", { exact: true }).inputValue(), "scheduled");
  await tab.close();
});

test("hostile text is text: scripts, right-to-left, long keys, plugin messages", async () => {
  const tab = await Tab.open(browser, server, { at: "/timers" });
  await tab.page.locator(".col-key a", { hasText: SCRIPT }).waitFor();
  // What turns the text around is named, so that no key reads as another.
  await tab.page.locator(".col-key a", { hasText: "طلب-١٧ [U+202E]evil" }).waitFor();
  await tab.page.locator(".col-key a", { hasText: SCRIPT }).click();
  await tab.page.getByRole("heading", { name: SCRIPT }).waitFor();
  await tab.sees(`note=${SCRIPT}`);
  assert.notEqual(await tab.page.title(), "owned");
  await tab.go("/compensations?state=dead");
  await tab.page.locator(".col-error").nth(1).waitFor();
  assert.notEqual(await tab.page.title(), "owned");
  // A key that no path can hold has its page by type and key all the same.
  await tab.go(`/types/order-timeout/timers/${encodeURIComponent(SCRIPT)}`);
  await tab.page.waitForURL(new RegExp(ids.script));
  await tab.close();
});

test("integers beyond 2^53 are exact, formatted and raw", async () => {
  const component = await readFile(path.join(PLUGINS, "hostile.wasm"));
  const upload = await fetch(`${server.url}/v1/plugins`, { method: "POST", headers: { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" }, body: component });
  await server.call("PUT", "/v1/types/any-payload", { digest: (await upload.json()).digest, default_delay: "1h" });
  const tab = await Tab.open(browser, server, { at: "/timers/new?type=any-payload" });
  await tab.page.getByLabel("Key", { exact: true }).fill("big");
  const json = tab.button("JSON");
  if (await json.count()) await json.click();
  await tab.page.getByLabel("Payload", { exact: true }).last().fill('{"do": "close", "amount": 9007199254740993, "rate": 0.1000000000000000055511151231257827}');
  await tab.button("Register").click();
  await tab.page.getByRole("heading", { name: "big" }).waitFor();
  await tab.sees("9007199254740993");
  await tab.sees("0.1000000000000000055511151231257827");
  await tab.page.getByRole("button", { name: "Raw" }).first().click();
  await tab.page.locator("pre", { hasText: '"amount": 9007199254740993' }).waitFor();
  await tab.close();
});

test("the year 9999 and 25 days ahead, at UTC+14, with a browser clock an hour wrong", async () => {
  const wrong = () => {
    const real = Date.now.bind(Date);
    Date.now = () => real() + 3_600_000;
  };
  const tab = await Tab.open(browser, server, { at: `/timers/${ids.far}`, timezone: "Pacific/Kiritimati", clock: wrong });
  await tab.sees("9999-12-31 23:59:59.000 UTC");
  await tab.go(`/timers/${ids.days}`);
  await tab.sees("UTC+14");
  await tab.page.getByText(/^in 2[45] d/).first().waitFor();
  await tab.page.locator(".banner-quiet", { hasText: /1 h 0 m ahead/ }).waitFor();
  await tab.go(`/timers/${ids.A17}`);
  await tab.sees("Timeline");
  assert.equal(await tab.page.getByText(/^in \d/).count(), 0, "the past reads as the future");
  await tab.page.keyboard.press("u");
  await tab.page.getByRole("button", { name: /Times in UTC\./ }).waitFor();
  await tab.close();
});

test("a reader sees everything, and each action says which role it needs", { timeout: 300_000 }, async () => {
  const { secret: token } = await server.call("POST", "/v1/keys", { name: "reader", role: "reader" });
  const tab = await Tab.open(browser, server, { at: `/timers/${ids.days}`, token });
  await tab.sees("Timeline");
  await tab.page.getByText("Needs the role producer").first().waitFor({ state: "attached" });
  for (const name of ["Resolve", "Cancel timer", "Reschedule", "Fire now"]) {
    const button = tab.button(name);
    assert.equal(await button.getAttribute("aria-disabled"), "true", name);
    // As a person does: nothing keeps a press from a button that only says that it is off.
    await button.click({ force: true });
    assert.equal(await tab.page.getByRole("dialog").count(), 0, name);
  }
  const elsewhere = [
    ["/timers", "Register", "producer"],
    ["/timers/new", "Register", "producer"],
    ["/types", "Upload", "publisher"],
    ["/types/upload", "Choose a file", "publisher"],
    ["/types/refused", "Pause", "operator"],
    ["/types/refused", "Revoke", "operator"],
    ["/types/refused/revisions", "Activate", "publisher"],
    ["/types/refused/dry-run", "Run", "publisher"],
    ["/compensations", "Redrive group", "operator"],
    ["/compensations?state=dead", "Redrive selected", "operator"],
  ];
  for (const [where, name, role] of elsewhere) {
    await tab.go(where);
    // A field for files is a button to some as well.
    const button = tab.page.locator("button", { hasText: name }).first();
    await tab.page.locator("body", { hasText: `Needs the role ${role}` }).waitFor();
    assert.equal(await button.getAttribute("aria-disabled"), "true", `${name} at ${where}`);
  }
  await tab.go("/timers");
  await tab.page.locator("tr[data-row] input[type=checkbox]").first().check();
  assert.equal(await tab.button("Cancel timer").getAttribute("aria-disabled"), "true");
  await tab.close();
});

test("who may not look into another namespace is told so by the server, and everything fits on a phone, as does the page that asks for a key", async () => {
  const { secret: token } = await server.call("POST", "/v1/keys", { name: "own namespace", role: "reader" });
  const tab = await Tab.open(browser, server, { at: "/?ns=elsewhere", token, width: 360, height: 740, touch: true });
  await tab.page.getByRole("alert").getByText("only an admin key may name another namespace").first().waitFor();
  await tab.sees("Whether there are problems is not known.");
  await tab.fits("refused");
  await tab.axe("refused");
  await tab.shot("refused-phone");
  await tab.button("Forget the token").click();
  await tab.page.getByLabel("API key").waitFor();
  await tab.fits("the page that asks for a key");
  await tab.axe("the page that asks for a key");
  await tab.shot("paste-phone");
  await tab.close();
});

test("three kinds of empty", async () => {
  const tab = await Tab.open(browser, server, { at: "/timers?state=overdue" });
  await tab.page.getByText(/^No overdue timers, checked \d\d:\d\d:\d\d/).waitFor();
  await tab.go("/timers?key=nothing-has-this-key");
  await tab.sees("No timer matches these filters.");
  await tab.button("Clear filters").first().click();
  await tab.page.locator("tr[data-row]").first().waitFor();
  await server.call("POST", "/v1/namespaces", { name: "empty" }, { any: true });
  await tab.go("/timers?ns=empty");
  await tab.page.locator("pre", { hasText: "curl -X POST" }).waitFor();
  await tab.go("/timers/0198c0de-0000-7000-8000-00000000dead?ns=default");
  await tab.page.getByRole("alert").waitFor();
  await tab.sees("not_found");
  await tab.go("/no-such-page");
  await tab.sees("There is no page at this address.");
  await tab.close();
});

test("an address of another version's file is not a page", async () => {
  const response = await fetch(`${server.url}/assets/gone.js`, { headers: { accept: "text/html" } });
  assert.equal(response.status, 404);
});
