/** Each action: what its dialog says, what it does, and what it says when somebody else was first. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";

import { openBrowser, Tab } from "./support/browser.mjs";
import { order, PLUGINS, Server } from "./support/server.mjs";
import { Shop } from "./support/shop.mjs";

let server, browser, shop;

before(async () => {
  [server, browser, shop] = await Promise.all([Server.start(), openBrowser(), Shop.start()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await shop?.stop();
});

let n = 0;
async function register(more = {}) {
  n += 1;
  const key = `order-${n}`;
  return server.call("POST", "/v1/timers", { type: "order-timeout", key, payload: order(key), delay: "1h", ...more });
}

const dialog = (tab) => tab.page.getByRole("dialog");
const verb = (tab, name) => dialog(tab).getByRole("button", { name, exact: true });

/** Types where the focus is once the dialog has it, as a person does. */
async function say(tab, text) {
  await dialog(tab).locator(":focus").waitFor();
  await tab.page.keyboard.type(text);
}

test("cancel: says what will not happen, shows the call, keeps the reason", async () => {
  const timer = await register();
  const tab = await Tab.open(browser, server, { at: `/timers/${timer.id}` });
  await tab.button("Cancel timer").click();
  await dialog(tab).getByText(`${timer.key} will not close; no plugin runs.`, { exact: false }).waitFor();
  // The focus starts on the reason.
  await say(tab, "the customer called");
  await dialog(tab).getByText("As a call").click();
  const call = await dialog(tab).getByLabel("curl", { exact: true }).textContent();
  assert.match(call, /If-Match: "1"/);
  assert.match(call, /\$LAPSE_TOKEN/);
  assert.ok(!call.includes(server.token));
  await tab.axe("cancel dialog");
  await tab.shot("cancel-dialog");
  await verb(tab, "Cancel timer").click();
  await dialog(tab).waitFor({ state: "detached" });
  await tab.sees("It was withdrawn; no plugin ran");
  await tab.sees("the customer called");
  assert.equal((await server.call("GET", `/v1/timers/${timer.id}`)).state, "cancelled");
  await tab.close();
});

test("a cancel of what changed elsewhere: explained, nothing lost, then done for the version that is seen", async () => {
  const timer = await register();
  const tab = await Tab.open(browser, server, { at: `/timers/${timer.id}` });
  await tab.button("Cancel timer").click();
  await say(tab, "kept over the conflict");
  await server.call("POST", `/v1/timers/${timer.id}/reschedule`, { delay: "2h" });
  await verb(tab, "Cancel timer").click();
  await dialog(tab).getByText("It changed since you opened this").waitFor();
  await dialog(tab).getByRole("rowheader", { name: "due at" }).waitFor();
  assert.equal((await server.call("GET", `/v1/timers/${timer.id}`)).state, "scheduled");
  assert.equal(await dialog(tab).getByLabel("Reason").inputValue(), "kept over the conflict");
  await tab.axe("conflict dialog");
  await tab.shot("conflict-dialog");
  await verb(tab, "Cancel timer").click();
  await dialog(tab).waitFor({ state: "detached" });
  assert.equal((await server.call("GET", `/v1/timers/${timer.id}`)).state, "cancelled");
  await tab.close();
});

test("resolve after the expiry: the winner is shown", async () => {
  const timer = await register();
  const tab = await Tab.open(browser, server, { at: `/timers/${timer.id}` });
  await tab.button("Resolve").click();
  await server.call("POST", `/v1/timers/${timer.id}/fire`, {});
  await server.until(`/v1/timers/${timer.id}`, (t) => t.state === "closed");
  await verb(tab, "Resolve timer").click();
  await dialog(tab).getByText("Too late: it is settled").waitFor();
  await dialog(tab).getByText("closed", { exact: true }).first().waitFor();
  await tab.shot("too-late-dialog");
  await tab.close();
});

test("resolve, reschedule and fire", async () => {
  const paid = await register();
  const moved = await register();
  const fired = await register();
  const tab = await Tab.open(browser, server, { at: `/timers/${paid.id}` });
  await tab.button("Resolve").click();
  await say(tab, "paid");
  await tab.page.keyboard.press("Enter");
  await tab.sees("The business settled it before it expired");

  await tab.go(`/timers/${moved.id}`);
  await tab.button("Reschedule").click();
  await dialog(tab).getByLabel("Delay from now").fill("nonsense");
  await dialog(tab).getByText("That is not a time that can be used.").waitFor();
  await dialog(tab).getByLabel("Delay from now").fill("25d");
  await verb(tab, "Reschedule timer").click();
  await dialog(tab).waitFor({ state: "detached" });
  await tab.page.getByText(/^in 2[45] d/).first().waitFor();
  await tab.button("Reschedule").click();
  await dialog(tab).getByLabel("At a time").click();
  await dialog(tab).getByLabel(/New due time/).fill("2020-01-01T00:00:00");
  await dialog(tab).getByText("in the past: fires at once").waitFor();
  await dialog(tab).getByRole("button", { name: "Keep as it is" }).click();

  await tab.go(`/timers/${fired.id}`);
  await tab.button("Fire now").click();
  await dialog(tab).getByText("In compensations: may send requests to", { exact: false }).first().waitFor();
  await verb(tab, "Fire now").click();
  await dialog(tab).waitFor({ state: "detached" });
  await server.until(`/v1/timers/${fired.id}`, (t) => t.state === "closed");
  await tab.page.reload();
  await tab.sees("It expired and its plugin closed it");
  await tab.close();
});

test("retry of a failed timer", async () => {
  await shop.type(server, "unknown-order", { checked: true });
  shop.status = 404;
  const timer = await register({ type: "unknown-order", delay: "100ms" });
  await server.until(`/v1/timers/${timer.id}`, (t) => t.state === "failed");
  shop.status = 200;
  const tab = await Tab.open(browser, server, { at: `/timers/${timer.id}` });
  await tab.sees("permanent");
  await tab.button("Retry").click();
  await say(tab, "the order is there now");
  await verb(tab, "Retry timer").click();
  await dialog(tab).waitFor({ state: "detached" });
  await server.until(`/v1/timers/${timer.id}`, (t) => t.state === "closed");
  await tab.close();
});

test("the selected are cancelled one by one, and what changed meanwhile is left alone", async () => {
  const label = { labels: { batch: "b1" } };
  const [one, two, three] = [await register(label), await register(label), await register(label)];
  const tab = await Tab.open(browser, server, { at: "/timers?label=batch%3Db1" });
  await tab.page.waitForFunction(() => document.querySelectorAll("tr[data-row]").length === 3);
  await tab.page.getByLabel("Select the rows that are loaded").check();
  await tab.sees("3 selected");
  await server.call("POST", `/v1/timers/${two.id}/reschedule`, { delay: "2h" });
  await tab.button("Cancel timer").click();
  await say(tab, "batch withdrawn");
  await verb(tab, "Cancel timer").click();
  await dialog(tab).getByText("Changed meanwhile, left alone: 1").waitFor();
  await dialog(tab).getByText("Done: 2").waitFor();
  await tab.shot("many-dialog");
  const state = async (t) => (await server.call("GET", `/v1/timers/${t.id}`)).state;
  assert.deepEqual([await state(one), await state(two), await state(three)], ["cancelled", "scheduled", "cancelled"]);
  await tab.close();
});

test("everything dead for a host is redriven, with a note, by the keyboard alone", async () => {
  await shop.type(server, "refused");
  shop.status = 404;
  const timers = [await register({ type: "refused", delay: "100ms" }), await register({ type: "refused", delay: "100ms" })];
  for (const t of timers) await server.until(`/v1/compensations?timer_id=${t.id}`, (p) => p.items.some((c) => c.state === "dead"));
  shop.status = 200;
  const tab = await Tab.open(browser, server);
  await tab.page.getByRole("heading", { name: "Overview" }).waitFor();
  await tab.page.keyboard.press("Control+k");
  await dialog(tab).waitFor();
  await say(tab, "Go to Compensations");
  await tab.page.keyboard.press("ArrowDown");
  await tab.page.keyboard.press("Enter");
  const redrive = tab.button("Redrive group").first();
  await redrive.waitFor();
  await tab.shot("groups");
  await tab.page.locator("body").press("Tab");
  for (let i = 0; i < 60; i += 1) {
    if (await redrive.evaluate((b) => b === document.activeElement)) break;
    await tab.page.keyboard.press("Tab");
  }
  await tab.page.keyboard.press("Enter");
  await dialog(tab).waitFor();
  // Without a note nothing is sent.
  await tab.page.keyboard.press("Enter");
  await dialog(tab).getByText("Say why, for whoever reads the audit later.").first().waitFor();
  await tab.page.keyboard.type("the host is back");
  await tab.axe("redrive dialog");
  await tab.page.keyboard.press("Enter");
  await dialog(tab).waitFor({ state: "detached" });
  for (const t of timers) await server.until(`/v1/compensations?timer_id=${t.id}`, (p) => p.items.every((c) => c.state === "done"));
  const events = await server.call("GET", `/v1/timers/${timers[0].id}/events`);
  assert.ok(JSON.stringify(events.items.filter((e) => e.kind === "compensation_redriven")).includes("the host is back"));
  await tab.page.getByText(/^No dead compensations, checked/).waitFor();
  await tab.close();
});

test("register: the server's pointers land on their fields, then it is there", async () => {
  const tab = await Tab.open(browser, server, { at: "/timers/new?type=order-timeout" });
  await tab.button("Register").click();
  await tab.page.locator(".field-error").first().waitFor();
  await tab.page.getByLabel("Key", { exact: true }).fill("from-the-console");
  await tab.button("Register").click();
  await tab.page.getByRole("alert").getByText("/payload").first().waitFor();
  await tab.page.locator(".payload-editor .text-danger, .payload-editor .error-detail").first().waitFor();
  await tab.axe("register with faults");
  await tab.shot("register-faults");
  await tab.button("JSON").click();
  await tab.page.getByLabel("Payload", { exact: true }).last().fill(JSON.stringify(order("from-the-console")));
  await tab.button("Register").click();
  await tab.page.getByRole("heading", { name: "from-the-console" }).waitFor();
  // Again with another payload: the timer that has the key is offered.
  await tab.go("/timers/new?type=order-timeout");
  await tab.page.getByLabel("Key", { exact: true }).fill("from-the-console");
  await tab.button("JSON").click();
  await tab.page.getByLabel("Payload", { exact: true }).last().fill(JSON.stringify(order("another")));
  await tab.button("Register").click();
  await tab.sees("key_conflict");
  await tab.page.getByRole("link", { name: "Open that timer" }).click();
  await tab.page.getByRole("heading", { name: "from-the-console" }).waitFor();
  await tab.close();
});

test("a plugin is uploaded, refused if it is none, and made live with new rights approved apart", async () => {
  const component = await readFile(path.join(PLUGINS, "order-timeout.wasm"));
  const tab = await Tab.open(browser, server, { at: "/types/upload" });
  const choose = (name, buffer) => tab.page.locator("input[type=file]").setInputFiles({ name, mimeType: "application/wasm", buffer });
  await tab.sees("Choose a file");
  await choose("broken.wasm", Buffer.from("not a component"));
  await tab.sees("Refused; the server is unharmed");
  await tab.sees("plugin_invalid");
  await choose("order-timeout.wasm", component);
  await tab.sees("Check report");
  await tab.page.getByLabel("Type", { exact: true }).fill("from-upload");
  await tab.page.getByRole("group", { name: "Configuration" }).getByRole("button", { name: "JSON" }).click();
  await tab.page.getByLabel("Configuration", { exact: true }).last().fill(JSON.stringify({ inventory_url: `http://${shop.host}/stock`, coupon_url: `http://${shop.host}/coupons` }));
  await tab.page.getByLabel("Rights to grant").fill(`http:${shop.host}`);
  await tab.sees(`In compensations: may send requests to ${shop.host}`);
  assert.equal(await tab.button("Make it live").getAttribute("aria-disabled"), "true");
  await tab.page.getByLabel("I approve these rights").check();
  assert.equal(await tab.button("Make it live").getAttribute("aria-disabled"), null);
  // What was approved is these rights, and no other.
  await tab.page.getByLabel("Rights to grant").fill(`http:${shop.host}\nhttp:another.example`);
  assert.equal(await tab.button("Make it live").getAttribute("aria-disabled"), "true");
  await tab.page.getByLabel("Rights to grant").fill(`http:${shop.host}`);
  await tab.page.getByLabel("I approve these rights").check();
  await tab.axe("upload");
  await tab.shot("upload");
  await tab.button("Make it live").click();
  await tab.page.getByRole("link", { name: "Open the type" }).click();
  await tab.page.getByRole("heading", { name: "from-upload" }).waitFor();
  await tab.sees(`In compensations: may send requests to ${shop.host}`);
  await tab.close();
});

test("an upload keeps what was set for the type apart from its plugin", async () => {
  const component = await readFile(path.join(PLUGINS, "order-timeout.wasm"));
  await shop.type(server, "kept", { default_delay: "10m", retry: { attempts: 9, initial: "1s", max: "60s" } });
  const tab = await Tab.open(browser, server, { at: "/types/upload" });
  await tab.page.locator("input[type=file]").setInputFiles({ name: "order-timeout.wasm", mimeType: "application/wasm", buffer: component });
  await tab.sees("Check report");
  await tab.page.getByLabel("Type", { exact: true }).fill("kept");
  await tab.sees(/^Kept from revision 1: the default delay of 10m, and the retries \(9 attempts\)/);
  await tab.page.getByRole("group", { name: "Configuration" }).getByRole("button", { name: "JSON" }).click();
  await tab.page.getByLabel("Configuration", { exact: true }).last().fill(JSON.stringify({ inventory_url: `http://${shop.host}/other`, coupon_url: `http://${shop.host}/coupons` }));
  await tab.button("Make it live").click();
  await tab.page.getByRole("link", { name: "Open the type" }).waitFor();
  const { items } = await server.call("GET", "/v1/types/kept/revisions");
  assert.deepEqual([items[0].number, items[0].default_delay, items[0].retry.attempts], [2, "10m", 9]);
  await tab.close();
});

test("of a group that is redriven, the one that was not dead any more is named", async () => {
  await shop.type(server, "half");
  shop.status = 404;
  const timers = [await register({ type: "half", delay: "100ms" }), await register({ type: "half", delay: "100ms" })];
  for (const t of timers) await server.until(`/v1/compensations?timer_id=${t.id}`, (p) => p.items.length > 0 && p.items.every((c) => c.state === "dead"));
  shop.status = 200;
  const tab = await Tab.open(browser, server, { at: "/compensations?state=dead&type=half" });
  await tab.page.getByLabel("Select the rows that are loaded").check();
  await tab.button("Redrive selected").click();
  const dead = (await server.call("GET", "/v1/compensations?type=half&state=dead")).items;
  const gone = dead[0];
  await server.call("POST", `/v1/compensations/${gone.id}/redrive`, { note: "somebody was first" });
  await say(tab, "the host is back");
  await verb(tab, "Redrive").click();
  await dialog(tab).getByText("not dead any more").waitFor();
  const links = await dialog(tab).locator(".keys a").evaluateAll((all) => all.map((a) => new URL(a.href).pathname));
  assert.deepEqual(links, [`/compensations/${gone.id}`]);
  await tab.close();
});

test("a right is revoked, which the page shows and the server holds, and restored", async () => {
  await shop.type(server, "incident");
  const right = `In compensations: may send requests to ${shop.host}`;
  const tab = await Tab.open(browser, server, { at: "/types/incident" });
  await tab.sees(right);
  await tab.button("Revoke").click();
  await dialog(tab).getByText("no revision of this type has it", { exact: false }).waitFor();
  await tab.axe("revoke dialog");
  await tab.shot("revoke");
  await verb(tab, "Revoke").click();
  await dialog(tab).waitFor({ state: "detached" });
  await tab.page.locator(".grants li", { hasText: "revoked" }).waitFor();
  await tab.axe("a type with a revoked right");
  await tab.shot("revoked");
  const { id } = await register({ type: "incident", delay: "100ms" });
  await server.until(`/v1/compensations?timer_id=${id}`, (p) => p.items.some((c) => c.last_error?.code === "grant_revoked"));
  await tab.button("Restore").click();
  await verb(tab, "Restore").click();
  await dialog(tab).waitFor({ state: "detached" });
  await tab.button("Revoke").waitFor();

  // What died of it is redriven, by the active revision if that was mended.
  const dead = (await server.call("GET", `/v1/compensations?timer_id=${id}`)).items[0];
  await tab.go(`/compensations/${dead.id}`);
  await tab.button("Redrive").first().click();
  await say(tab, "the right is back");
  await dialog(tab).getByLabel(/^By the active revision/).check();
  await verb(tab, "Redrive").click();
  await dialog(tab).waitFor({ state: "detached" });
  await server.until(`/v1/compensations/${dead.id}`, (c) => c.state === "done");
  await tab.page.locator("header .badge", { hasText: "Done" }).waitFor();
  await tab.close();
});

test("a dry run decides and has no effect; a revision is activated", async () => {
  await shop.type(server, "dry", { default_delay: "10m" });
  await shop.type(server, "dry", { default_delay: "20m" });
  const tab = await Tab.open(browser, server, { at: "/types/dry/dry-run" });
  await tab.button("JSON").click();
  await tab.page.getByLabel("Payload", { exact: true }).last().fill(JSON.stringify(order("A17")));
  await tab.button("Run").click();
  await tab.sees("release_inventory");
  await tab.axe("dry run");
  await tab.shot("dry-run-done");
  assert.equal((await server.call("GET", "/v1/timers?type=dry")).items.length, 0);
  await tab.page.getByRole("link", { name: "Revisions" }).click();
  await tab.page.getByRole("button", { name: "Activate", exact: true }).last().click();
  await dialog(tab).getByText("Rights gained").waitFor();
  await verb(tab, "Activate revision").click();
  await dialog(tab).waitFor({ state: "detached" });
  assert.equal((await server.call("GET", "/v1/types/dry")).revision, 1);
  await tab.close();
});
