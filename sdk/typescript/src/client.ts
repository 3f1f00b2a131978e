import createFetchClient, { type Client as FetchClient } from "openapi-fetch";
import type { CallOptions, Operation } from "./call.js";
import { LapseConnectionError, errorOf } from "./error.js";
import { parse, stringify } from "./json.js";
import { type Calls, OPERATIONS, VERSION } from "./operations.js";
import { type RetryOptions, checkedMs, checkedRetry, retryAfterMs, sleep, waitMs } from "./retry.js";
import type { paths } from "./schema.js";

export interface ClientOptions {
  /** Where the server is, such as `http://127.0.0.1:8080`. */
  baseUrl: string;
  /** An API key. */
  token?: string;
  /** Another namespace than the key's own, for all calls; only an admin's key may name one. */
  namespace?: string;
  /** How long one attempt may take, in milliseconds; a minute unless said otherwise. */
  timeoutMs?: number;
  /** How calls that are safe to repeat are repeated while the server is busy or away. */
  retry?: RetryOptions;
  /** Another `fetch` than the global one. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface Client extends Calls {
  /** The openapi-fetch client beneath: plain answers, no retries, no exact integers. */
  readonly raw: FetchClient<paths>;
}

/** A client of one server: one method for each of the API's calls. */
export function createClient(options: ClientOptions): Client {
  const { token, namespace } = options;
  const url = checkedUrl(options.baseUrl);
  const settings: Settings = {
    fetch: options.fetch ?? ((request) => globalThis.fetch(request)),
    timeoutMs: checkedMs("timeoutMs", options.timeoutMs ?? 60_000),
    retry: checkedRetry(options.retry ?? {}),
  };
  const headers: Record<string, string> = { "user-agent": `lapse-client-typescript/${VERSION}` };
  if (token) headers["authorization"] = `Bearer ${token}`;
  if (namespace) headers["lapse-namespace"] = namespace;
  const raw = createFetchClient<paths>({ baseUrl: url, headers, fetch: settings.fetch });
  const calls = Object.entries(OPERATIONS).map(([name, operation]) => [name, caller(raw, operation, settings)]);
  return { raw, ...(Object.fromEntries(calls) as Calls) };
}

interface Settings {
  fetch: (request: Request) => Promise<Response>;
  timeoutMs: number;
  retry: Required<RetryOptions>;
}

function checkedUrl(baseUrl: string): string {
  if (!URL.canParse(baseUrl) || !/^https?:/.test(baseUrl)) {
    throw new TypeError(`baseUrl is ${JSON.stringify(baseUrl)}: it takes an address such as http://127.0.0.1:8080`);
  }
  return baseUrl.replace(/\/+$/, "");
}

/** openapi-fetch's own types ask for one path at a time; here any operation is called. */
type AnyRequest = (method: string, path: string, init: object) => Promise<{ response: Response }>;

function caller(raw: FetchClient<paths>, operation: Operation, settings: Settings) {
  const inPath = [...operation.path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name as string);
  return async (...args: unknown[]): Promise<unknown> => {
    const given = operation.params ? ((args.shift() ?? {}) as Record<string, unknown>) : {};
    const body = operation.body === "none" ? undefined : args.shift();
    const options = (args.shift() ?? {}) as CallOptions;
    const path = Object.fromEntries(inPath.map((name) => [name, pathValue(name, given[name])]));
    const query = Object.fromEntries(Object.entries(given).filter(([name]) => !inPath.includes(name)));
    const headers: Record<string, string> = {};
    if (options.namespace !== undefined) headers["lapse-namespace"] = options.namespace;
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    if (options.ifVersion !== undefined) headers["if-match"] = `"${options.ifVersion}"`;
    if (operation.body === "bytes") headers["content-type"] = "application/octet-stream";
    const { response } = await (raw.request as unknown as AnyRequest)(operation.method, operation.path, {
      params: { path, query },
      headers,
      ...(body === undefined ? {} : { body }),
      bodySerializer: operation.body === "bytes" ? (bytes: unknown) => bytes : stringify,
      // The answer is read below, exactly.
      parseAs: "stream",
      fetch: (request: Request) => send(request, operation, options, settings),
    });
    switch (operation.answer) {
      case "none":
        await response.body?.cancel();
        return undefined;
      case "stream":
        return response;
      case "text":
        return await readText(response);
      case "json":
        return parse(await readText(response));
    }
  };
}

/** Every URL parser takes `.` and `..` for steps, however they are encoded. */
function pathValue(name: string, value: unknown): string {
  const text = String(value ?? "");
  if (text === "" || text === "." || text === "..") {
    throw new TypeError(`${name} is ${JSON.stringify(value)}, which cannot stand in a path: find the timer by a list, and use its id`);
  }
  return text;
}

async function readText(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (cause) {
    throw new LapseConnectionError("the answer broke off", { cause });
  }
}

/** Sends a request, again while the server is busy or away if that is safe. A problem is thrown. */
async function send(request: Request, operation: Operation, options: CallOptions, settings: Settings): Promise<Response> {
  const timeoutMs = options.timeoutMs === undefined ? settings.timeoutMs : checkedMs("timeoutMs", options.timeoutMs);
  const tries = operation.idempotent ? settings.retry.tries : 1;
  for (let tried = 1; ; tried += 1) {
    let error: Error;
    let asked: number | undefined;
    try {
      const response = await attempt(request.clone(), operation, options.signal, timeoutMs, settings);
      if (response.ok) return response;
      asked = retryAfterMs(response.headers);
      error = await errorOf(response, asked);
      if (response.status !== 429 && response.status !== 503) throw error;
    } catch (cause) {
      if (!(cause instanceof LapseConnectionError)) throw cause;
      error = cause;
    }
    const wait = tried < tries ? waitMs(tried, asked, settings.retry.maxWaitMs) : undefined;
    if (wait === undefined) throw error;
    await sleep(wait, options.signal);
  }
}

async function attempt(
  request: Request,
  operation: Operation,
  signal: AbortSignal | undefined,
  timeoutMs: number,
  settings: Settings,
): Promise<Response> {
  const signals = signal ? [signal] : [];
  // A stream has no end that could be late.
  if (operation.answer !== "stream") signals.push(AbortSignal.timeout(timeoutMs));
  try {
    return await settings.fetch(new Request(request, { signal: AbortSignal.any(signals) }));
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new LapseConnectionError(`no answer from ${new URL(request.url).origin}`, { cause });
  }
}
