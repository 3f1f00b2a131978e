/** Requests to the hosts that an operator has granted. */
import { send, sendWithSecrets } from "#host";

import { ms, type Duration } from "./duration.ts";
import { Failure } from "./failure.ts";
import { json } from "./json.ts";
import type { Header, HttpError, Method, Response as WitResponse } from "./wit.ts";

export interface RequestOptions {
  method?: Method;
  headers?: Record<string, string>;
  /**
   * Headers with a secret in them, behind a prefix (such as `Bearer `). The host puts it in, and the plugin never sees
   * it. Each needs a grant of its own, `secret:NAME`.
   */
  secretHeaders?: Record<string, { secret: string; prefix?: string }>;
  /** Sent as JSON, with its content type. */
  json?: unknown;
  /** Sent as it is. */
  body?: Uint8Array;
  /** For the whole exchange; the host has a bound of its own. */
  timeout?: Duration;
}

/** A whole answer. */
export class Response {
  readonly status: number;
  readonly body: Uint8Array;
  readonly #headers: Header[];

  constructor({ status, headers, body }: WitResponse) {
    this.status = status;
    this.body = body;
    this.#headers = headers;
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  /** The first value of a header. */
  header(name: string): string | undefined {
    return this.#headers.find((h) => h.name === name.toLowerCase())?.value;
  }

  text(): string {
    return utf8(this.body);
  }

  json(): any {
    return JSON.parse(this.text());
  }

  /** How long `Retry-After` asks to wait, in milliseconds, whether in seconds or as a date (RFC 9110, 10.2.3). */
  retryAfter(now: number): number | null {
    const value = this.header("retry-after")?.trim();
    if (value === undefined) return null;
    if (/^\d{1,10}$/.test(value)) return Number(value) * 1000;
    const at = Date.parse(value);
    return Number.isNaN(at) ? null : Math.max(0, at - now);
  }

  /**
   * The usual reading of a status that is no success: 409 is a conflict; 408, 425, 429 and 5xx are worth another try,
   * when `Retry-After` says if it does; anything else will not get better by itself.
   */
  failure(what: string, now: number): Failure {
    const [code, message] = [`http_${this.status}`, `${what} was answered ${this.status}`];
    if (this.status === 409) return Failure.conflict(code, message);
    if ([408, 425, 429].includes(this.status) || this.status >= 500) {
      return Failure.downstream(code, message).retryAfter(this.retryAfter(now));
    }
    return Failure.permanent(code, message);
  }
}

/**
 * Sends a request; Lapse adds `Idempotency-Key` with the call's own key. That there is no answer is thrown as a
 * {@link Failure}: what is the service's fault is worth another try, what is the plugin's or its grants' is not.
 */
export function request(url: string, options: RequestOptions = {}): Response {
  const headers = Object.entries(options.headers ?? {}).map(([name, value]) => ({ name, value }));
  let body = options.body ?? null;
  if (options.json !== undefined) {
    body = bytes(json(options.json));
    headers.push({ name: "content-type", value: "application/json" });
  }
  const timeoutMs = options.timeout === undefined ? null : ms(options.timeout);
  try {
    const request = { method: options.method ?? "get", url, headers, body, timeoutMs };
    const secrets = Object.entries(options.secretHeaders ?? {})
      .map(([name, { secret, prefix = "" }]) => ({ name, prefix, secret }));
    return new Response(secrets.length === 0 ? send(request) : sendWithSecrets(request, secrets));
  } catch (thrown) {
    throw failureOfHttp(thrown as HttpError);
  }
}

export const get = (url: string, options?: RequestOptions): Response => request(url, options);
export const post = (url: string, options?: RequestOptions): Response => request(url, { method: "post", ...options });

function failureOfHttp(error: HttpError): Failure {
  switch (error?.tag) {
    case "timeout":
      return Failure.downstream("http_timeout", "there was no answer in time");
    case "connection":
      return Failure.downstream("http_connection", error.val);
    case "denied":
      return Failure.permanent("http_denied", error.val);
    case "invalid":
      return Failure.permanent("http_invalid", error.val);
    case "too-large":
      return Failure.permanent("http_too_large", `the request or its answer is over ${error.val} bytes`);
    case "too-many-calls":
      return Failure.permanent("too_many_calls", "the call has used up its host calls");
    case "too-many-redirects":
      return Failure.downstream("http_redirects", "there were too many redirects");
    default:
      throw error;
  }
}

// QuickJS has no TextEncoder and no TextDecoder.

function bytes(text: string): Uint8Array {
  const out: number[] = [];
  for (const c of text) {
    // A lone surrogate has no UTF-8.
    const code = /^[\ud800-\udfff]$/.test(c) ? 0xfffd : c.codePointAt(0)!;
    if (code < 0x80) out.push(code);
    else if (code < 0x800) out.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) out.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else {
      out.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
  }
  return Uint8Array.from(out);
}

/** Bytes that are no UTF-8 become U+FFFD, one each. */
function utf8(given: ArrayLike<number>): string {
  let text = "";
  for (let i = 0; i < given.length; ) {
    const first = given[i]!;
    const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    let code = length === 1 ? first : first & (0xff >> (length + 1));
    let whole = length > 0 && i + length <= given.length;
    for (let n = 1; whole && n < length; n++) {
      const next = given[i + n]!;
      whole = (next & 0xc0) === 0x80;
      code = (code << 6) | (next & 63);
    }
    const least = [0, 0, 0x80, 0x800, 0x10000][length] ?? 0;
    whole &&= code >= least && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    text += whole ? String.fromCodePoint(code) : "\ufffd";
    i += whole ? length : 1;
  }
  return text;
}
