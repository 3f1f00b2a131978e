/** Numbers as the reader's language writes them. */

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const rate = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const small = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 2 });

export function count(n: number): string {
  return whole.format(n);
}

/** A count that may have been cut short. */
export function capped(c: { count: number; capped?: boolean } | undefined): string | undefined {
  if (!c) return undefined;
  return c.capped ? `${whole.format(c.count)}+` : whole.format(c.count);
}

/** Per second: three digits that mean something, never a false zero. */
export function perSecond(n: number): string {
  if (n > 0 && n < 0.1) return small.format(n);
  return rate.format(n);
}

/** Milliseconds as a person reads them. */
export function millis(ms: number): string {
  if (ms < 10) return `${rate.format(ms)} ms`;
  if (ms < 10_000) return `${whole.format(ms)} ms`;
  return `${rate.format(ms / 1000)} s`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${whole.format(n)} B`;
  if (n < 1024 * 1024) return `${rate.format(n / 1024)} KiB`;
  return `${rate.format(n / 1024 / 1024)} MiB`;
}

export function plural(n: number, one: string, many: string): string {
  return `${whole.format(n)} ${n === 1 ? one : many}`;
}
