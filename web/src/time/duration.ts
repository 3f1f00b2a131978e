/** Lengths of time in words. Whole units only; a day is 24 hours. */

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
export const YEAR = 365 * DAY;

/** "4 m 12 s": seconds under an hour, minutes under a day, then days. Of the absolute value. */
export function length(ms: number): string {
  const abs = Math.abs(ms);
  if (abs < MINUTE) return `${Math.floor(abs / SECOND)} s`;
  if (abs < HOUR) return `${Math.floor(abs / MINUTE)} m ${Math.floor((abs % MINUTE) / SECOND)} s`;
  if (abs < DAY) return `${Math.floor(abs / HOUR)} h ${Math.floor((abs % HOUR) / MINUTE)} m`;
  const days = Math.floor(abs / DAY);
  return `${new Intl.NumberFormat().format(days)} d`;
}

const PLAIN = /^(\d{1,15})(ms|s|m|h|d)$/;
const ISO = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/;

/** Milliseconds of a duration as the API writes it; undefined where it is not one. */
export function parseDuration(text: string): number | undefined {
  const plain = PLAIN.exec(text);
  if (plain) {
    const unit = { ms: 1, s: SECOND, m: MINUTE, h: HOUR, d: DAY }[plain[2] as "ms" | "s" | "m" | "h" | "d"];
    return Number(plain[1]) * unit;
  }
  const iso = ISO.exec(text);
  if (!iso || text === "P" || text.endsWith("T")) return undefined;
  const [, d = "0", h = "0", m = "0", s = "0"] = iso;
  return Number(d) * DAY + Number(h) * HOUR + Number(m) * MINUTE + Number(s) * SECOND;
}

/** A duration setting, such as "30m" or "PT30M", for people; its own text where it is not understood. */
export function durationText(text: string): string {
  const ms = parseDuration(text);
  if (ms === undefined) return text;
  if (ms < SECOND) return `${ms} ms`;
  if (ms % DAY === 0) return `${ms / DAY} d`;
  if (ms % HOUR === 0) return `${ms / HOUR} h`;
  if (ms % MINUTE === 0) return `${ms / MINUTE} m`;
  return length(ms);
}
