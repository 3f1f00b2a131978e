/** Between a date field, which knows no zone, and an instant in the zone that is shown. */
import type { Zone } from "./format";

const NAIVE = /^(\d{4,6})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?$/;

/** The instant that a `datetime-local` value stands for; undefined where it is not one. */
export function fromField(value: string, zone: Zone): string | undefined {
  const match = NAIVE.exec(value);
  if (!match) return undefined;
  const [, y, mo, d, h, mi, s = "0", frac = "0"] = match;
  const fields = [Number(y), Number(mo) - 1, Number(d), Number(h), Number(mi), Number(s), Number(frac.padEnd(3, "0"))] as const;
  const at = zone === "utc" ? new Date(Date.UTC(...fields)) : new Date(...fields);
  if (Number.isNaN(at.getTime()) || at.getTime() > Date.UTC(9999, 11, 31, 23, 59, 59, 999)) return undefined;
  return at.toISOString();
}

/** The value of a `datetime-local` field that shows this instant. */
export function toField(iso: string, zone: Zone): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  const two = (n: number) => String(n).padStart(2, "0");
  if (zone === "utc") return at.toISOString().slice(0, 19);
  return `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
