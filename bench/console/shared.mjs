/** What the console's measurements share: the command's own load, and figures. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

/** Runs `lapse bench …` against a server; its report is JSON. */
export function bench(server, ...args) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, LAPSE_SERVER_URL: server.url, LAPSE_TOKEN: server.token };
    const child = spawn(process.env.LAPSE_BIN, ["bench", ...args, "--json"], { env, stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    let failed = "";
    child.stdout.on("data", (chunk) => (said += chunk));
    child.stderr.on("data", (chunk) => (failed += chunk));
    child.once("exit", (code) => (code === 0 ? resolve(JSON.parse(said)) : reject(new Error(`lapse bench ${args.join(" ")}: ${failed || said}`))));
  });
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

export const median = (values) => quantile(values, 0.5);

/** CPU time that a process has used, in milliseconds. A tick is 10 ms on Linux. */
export function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export function residentMib(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

export function table(head, rows) {
  const all = [head, ...rows].map((row) => row.map(String));
  const widths = head.map((_, n) => Math.max(...all.map((row) => row[n].length)));
  for (const row of all) console.log(row.map((text, n) => (n === 0 ? text.padEnd(widths[n]) : text.padStart(widths[n]))).join("  "));
}
