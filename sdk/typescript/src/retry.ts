/** When a call is sent again, and after how long. */

export interface RetryOptions {
  /** Attempts in all, the first included; 1 for none again. */
  tries?: number;
  /** The longest wait before the next attempt, in milliseconds. If the server asks for more, the error is thrown at once. */
  maxWaitMs?: number;
}

/** What a timer of JavaScript can hold; a longer one would go off at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const MAX_TRIES = 20;
const FIRST_WAIT_MS = 200;

export function checkedRetry({ tries = 4, maxWaitMs = 30_000 }: RetryOptions): Required<RetryOptions> {
  if (!Number.isInteger(tries) || tries < 1 || tries > MAX_TRIES) {
    throw new RangeError(`retry.tries is ${tries}: it takes an integer from 1 to ${MAX_TRIES}`);
  }
  return { tries, maxWaitMs: checkedMs("retry.maxWaitMs", maxWaitMs) };
}

export function checkedMs(name: string, ms: number): number {
  if (!(ms >= 0 && ms <= MAX_TIMER_MS)) {
    throw new RangeError(`${name} is ${ms}: it takes milliseconds, at most ${MAX_TIMER_MS} (24 days)`);
  }
  return ms;
}

/** `Retry-After`, which is in seconds or a date. */
export function retryAfterMs(headers: Headers, nowMs = Date.now()): number | undefined {
  const text = headers.get("retry-after")?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** What the server asks for, and otherwise doubling, with full jitter. `undefined`: not to be waited for. */
export function waitMs(tried: number, asked: number | undefined, maxWaitMs: number): number | undefined {
  if (asked !== undefined && asked > maxWaitMs) return undefined;
  const jitter = Math.random() * FIRST_WAIT_MS * 2 ** (tried - 1);
  // A little more than is asked for, so that callers who were refused together do not come back together.
  return Math.min(asked === undefined ? jitter : asked + Math.random() * FIRST_WAIT_MS, maxWaitMs);
}

export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
