/** A browser, and pages that tell of every console error and every violation of the content policy. */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.resolve(import.meta.dirname, "../../../web/package.json"));
const { chromium } = require("playwright-core");
const AXE = require.resolve("axe-core/axe.min.js");

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** The longest that anything on a page may take to show; machines that build may be slow. */
export const PATIENCE_MS = Number(process.env.E2E_PATIENCE_MS ?? 30_000);

export async function openBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
}

/** What the console may log: the browser itself tells of each answer that is not a success. */
const EXPECTED = /^Failed to load resource/;

export class Tab {
  static async open(browser, server, { width = 1280, height = 800, dark = false, timezone = "Europe/Berlin", touch = false, token = server.token, at = "/", clock, first } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", timezoneId: timezone, hasTouch: touch, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const tab = new Tab(context, page, server);
    await page.addInitScript(() => {
      globalThis.violations = [];
      document.addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
    });
    if (clock) await page.addInitScript(clock);
    await first?.(page);
    page.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED.test(message.text())) tab.faults.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => tab.faults.push(`page: ${error.message}`));
    page.on("dialog", (dialog) => {
      tab.faults.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(server.url + at + (token ? `#token=${token}` : ""));
    return tab;
  }

  faults = [];

  constructor(context, page, server) {
    this.context = context;
    this.page = page;
    this.server = server;
  }

  go(where) {
    return this.page.goto(this.server.url + where);
  }

  /** Waits for text anywhere on the page. */
  sees(text) {
    return this.page.getByText(text).first().waitFor();
  }

  button(name, options = {}) {
    return this.page.getByRole("button", { name, exact: true, ...options });
  }

  async axe(what) {
    await this.page.evaluate(await axeSource());
    const found = await this.page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const told = found.violations.map((v) => `${v.id}: ${v.help}\n    ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join("\n    ")}`);
    assert.deepEqual(told, [], `${what}: axe`);
  }

  /** Nothing is wider than the window. */
  async fits(what) {
    const over = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `${what} is ${over} px wider than the window`);
  }

  async shot(name) {
    if (!process.env.E2E_SHOTS) return;
    await mkdir(process.env.E2E_SHOTS, { recursive: true });
    await this.page.screenshot({ path: path.join(process.env.E2E_SHOTS, `${name}.png`) });
  }

  async close() {
    const violations = await this.page.evaluate(() => globalThis.violations ?? []).catch(() => []);
    await this.context.close();
    assert.deepEqual(violations, [], "violations of the content policy");
    assert.deepEqual(this.faults, [], "faults");
  }
}

let source;
async function axeSource() {
  const { readFile } = await import("node:fs/promises");
  source ??= await readFile(AXE, "utf8");
  return source;
}
