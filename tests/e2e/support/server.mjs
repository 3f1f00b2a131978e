/** A server of our own: the real binary, a data folder and ports of its own, stopped when the tests end. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "../../..");
/** Where the built components are. */
export const PLUGINS = process.env.LAPSE_PLUGINS_DIR ?? path.join(ROOT, "plugins/dist");
const READY_MS = 60_000;
const STOP_MS = 20_000;

function binary() {
  const named = process.env.LAPSE_BIN;
  const built = ["target/debug/lapse", "target/release/lapse"].map((p) => path.join(ROOT, p));
  const found = named ?? built.find(existsSync);
  if (!found) throw new Error("there is no lapse binary; run `cargo build`, or name one in LAPSE_BIN");
  return found;
}

async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

export class Server {
  static async start(settings = {}) {
    const data = await mkdtemp(path.join(tmpdir(), "lapse-e2e-"));
    const server = new Server(data, await freePort(), settings);
    await server.up();
    return server;
  }

  constructor(data, port, settings) {
    this.data = data;
    this.port = port;
    this.settings = settings;
    this.token = "0123456789abcdef0123456789abcdef";
    this.url = `http://127.0.0.1:${port}`;
  }

  async up() {
    const args = ["dev", "--listen", `127.0.0.1:${this.port}`, "--demo-shop", "127.0.0.1:0", "--data", this.data, "--token", this.token, "--log", "warn"];
    this.child = spawn(binary(), args, { env: { ...process.env, LAPSE_PLUGINS_DIR: PLUGINS, ...this.settings }, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    this.child.stderr.on("data", (chunk) => (said += chunk));
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`lapse dev was not ready in time: ${said}`)), READY_MS);
      this.child.once("exit", (code) => reject(new Error(`lapse dev ended with ${code}: ${said}`)));
      this.child.stdout.on("data", (chunk) => {
        said += chunk;
        if (String(said).includes("is ready")) {
          clearTimeout(timer);
          resolve();
        }
      });
    });
  }

  async down(signal = "SIGTERM") {
    const { child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await gone;
    clearTimeout(timer);
  }

  async stop() {
    await this.down();
    await rm(this.data, { recursive: true, force: true });
  }

  /** One call; anything but success throws, unless `any`. */
  async call(method, where, body, { any = false, token = this.token, headers = {} } = {}) {
    const response = await fetch(this.url + where, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok && !any) throw new Error(`${method} ${where}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  /** Asks until the answer is as wanted. */
  async until(where, wanted, ms = 30_000) {
    const end = Date.now() + ms;
    for (;;) {
      const answer = await this.call("GET", where);
      if (wanted(answer)) return answer;
      if (Date.now() > end) throw new Error(`${where} did not become as wanted: ${JSON.stringify(answer)}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

export function order(id, more = {}) {
  return { order_id: id, user_id: "u-1", total_amount: 1990, payment_method: "online", items: [{ sku: "tea", quantity: 2 }], ...more };
}
