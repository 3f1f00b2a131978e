/** A length of time: milliseconds, or as in `500ms`, `30s`, `15m`, `2h`, `7d`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** As Lapse says it: the shortest whole unit. */
export function said(length: number): string {
  const [unit, name] = Object.entries(UNITS).reverse().map(([name, unit]) => [unit, name] as const)
    .find(([unit]) => length !== 0 && length % unit === 0) ?? [1000, "s"];
  return `${length / unit}${name}`;
}

/** In milliseconds. Anything else than a duration is a mistake in the plugin or its configuration, and thrown. */
export function ms(duration: Duration | string): number {
  if (typeof duration === "number") {
    if (Number.isSafeInteger(duration) && duration >= 0) return duration;
    throw new RangeError(`${duration} is not a whole number of milliseconds`);
  }
  const [, count, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(duration) ?? [];
  const length = Number(count) * UNITS[unit as keyof typeof UNITS];
  if (Number.isSafeInteger(length)) return length;
  throw new RangeError(`${JSON.stringify(duration)} is not a duration: write it like 500ms, 30s, 15m, 2h, 7d`);
}
