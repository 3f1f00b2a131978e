/** One way to the server: token, namespace, JSON without loss, problems as errors. */
import { observe } from "../time/clock";
import { answered, unanswered } from "./health";
import { parse, stringify, type Json } from "./lossless";
import { Problem, Unreachable, type ProblemBody } from "./problem";
import { dropToken, namespace, token } from "./session";

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

export type Call = {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Query;
  body?: unknown;
  /** Bytes instead of JSON. */
  octets?: Blob;
  ifMatch?: number;
  signal?: AbortSignal;
};

export type Answer<T> = { data: T; status: number; etag?: string };

export function address(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, given] of Object.entries(query)) {
    if (given === undefined || given === "") continue;
    for (const one of Array.isArray(given) ? given : [given]) params.append(name, String(one));
  }
  const search = params.toString();
  return search ? `${path}?${search}` : path;
}

export function headers(call: Call): Headers {
  const all = new Headers({ accept: "application/json" });
  const key = token.get();
  if (key) all.set("authorization", `Bearer ${key}`);
  const ns = namespace.get();
  if (ns) all.set("lapse-namespace", ns);
  if (call.body !== undefined) all.set("content-type", "application/json");
  if (call.octets) all.set("content-type", "application/octet-stream");
  if (call.ifMatch !== undefined) all.set("if-match", `"${call.ifMatch}"`);
  return all;
}

async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    const response = await fetch(url, { ...init, cache: "no-store", credentials: "omit" });
    // A gateway's word that nobody is behind it is the same as silence.
    if (response.status === 502 || response.status === 504) throw new TypeError(`HTTP ${response.status}`);
    answered();
    return response;
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    unanswered();
    throw new Unreachable(cause);
  }
}

export function problemOf(response: Response, text: string): Problem {
  let body: ProblemBody = { title: response.statusText || `HTTP ${response.status}` };
  try {
    const parsed = parse(text);
    if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) body = parsed as unknown as ProblemBody;
  } catch {
    // Not a problem document: its status must do.
  }
  const after = Number(response.headers.get("retry-after"));
  return new Problem(response.status, body, Number.isFinite(after) && after > 0 ? after : undefined);
}

export async function call<T = Json>(path: string, how: Call = {}): Promise<Answer<T>> {
  const used = token.get();
  const response = await reach(address(path, how.query), {
    method: how.method ?? "GET",
    headers: headers(how),
    body: how.octets ?? (how.body === undefined ? undefined : stringify(how.body)),
    signal: how.signal,
  });
  const text = await response.text();
  if (!response.ok) {
    const problem = problemOf(response, text);
    if (problem.status === 401 && token.get() === used) dropToken(problem.message);
    throw problem;
  }
  const data = (text ? parse(text) : null) as T;
  const now = (data as { now?: unknown } | null)?.now;
  if (typeof now === "string") observe(now);
  return { data, status: response.status, etag: response.headers.get("etag") ?? undefined };
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await call<T>(path, { query, signal })).data;
}
