/**
 * Instants in words. Absolute times are the server's own and are never shifted; only "how long until" uses the estimated
 * offset between the two clocks.
 */
import { YEAR, length } from "./duration";

export type Zone = "local" | "utc";

const MAX_YEAR = 9999;

type Parts = { year: number; month: string; day: string; hour: string; minute: string; second: string; ms: string; zone: string };

const formats = new Map<string, Intl.DateTimeFormat>();

function formatFor(timeZone: string | undefined): Intl.DateTimeFormat {
  const name = timeZone ?? "";
  let format = formats.get(name);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      timeZone,
      calendar: "gregory",
      numberingSystem: "latn",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      fractionalSecondDigits: 3,
      hourCycle: "h23",
      timeZoneName: "shortOffset",
    });
    formats.set(name, format);
  }
  return format;
}

function partsIn(at: Date, timeZone: string | undefined): Parts {
  const parts: Record<string, string> = {};
  for (const { type, value } of formatFor(timeZone).formatToParts(at)) parts[type] = value;
  const zone = (parts["timeZoneName"] ?? "UTC").replace("GMT", "UTC").replace(/^UTC[+-]0$/, "UTC").replace("-", "\u2212");
  return {
    year: Number(parts["year"]),
    month: parts["month"] ?? "",
    day: parts["day"] ?? "",
    hour: parts["hour"] ?? "",
    minute: parts["minute"] ?? "",
    second: parts["second"] ?? "",
    ms: parts["fractionalSecond"] ?? "000",
    zone,
  };
}

/** The last instants of 9999 are in the year 10000 east of Greenwich, which nothing else can write: UTC there. */
function parts(at: Date, zone: Zone, timeZone?: string): Parts {
  const there = partsIn(at, zone === "utc" ? "UTC" : timeZone);
  return there.year > MAX_YEAR || Number.isNaN(there.year) ? partsIn(at, "UTC") : there;
}

export type Style = "full" | "seconds" | "clock" | "minute";

/** `2026-11-30 12:30:05.123 UTC+2`. `timeZone` is the browser's own where it is not given. */
export function absolute(iso: string, zone: Zone, style: Style = "full", timeZone?: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const p = parts(at, zone, timeZone);
  const date = `${String(p.year).padStart(4, "0")}-${p.month}-${p.day}`;
  const time = `${p.hour}:${p.minute}:${p.second}`;
  switch (style) {
    case "full":
      return `${date} ${time}.${p.ms} ${p.zone}`;
    case "seconds":
      return `${date} ${time} ${p.zone}`;
    case "clock":
      return `${time} ${p.zone}`;
    case "minute":
      return `${p.hour}:${p.minute}`;
  }
}

/** Without the zone: for columns whose head names it. A day that is not today's leads. */
export function cell(iso: string, zone: Zone, nowMs: number, timeZone?: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  const p = parts(at, zone, timeZone);
  const own = partsIn(at, zone === "utc" ? "UTC" : timeZone);
  const today = parts(new Date(nowMs), zone, timeZone);
  const time = `${p.hour}:${p.minute}:${p.second}`;
  const fell = own.year !== p.year ? " UTC" : "";
  if (p.year === today.year && p.month === today.month && p.day === today.day) return time + fell;
  return `${String(p.year).padStart(4, "0")}-${p.month}-${p.day} ${time}${fell}`;
}

/** The name of the zone that times are shown in. */
export function zoneName(zone: Zone, atMs: number, timeZone?: string): string {
  return zone === "utc" ? "UTC" : partsIn(new Date(atMs), timeZone).zone;
}

/** "in 4 m 12 s", "4 m 12 s ago"; beyond a year only the date tells anything. */
export function relative(iso: string, nowMs: number, zone: Zone, timeZone?: string): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return iso;
  const delta = at - nowMs;
  if (Math.abs(delta) >= YEAR) return absolute(iso, zone, "seconds", timeZone);
  if (delta > 0) return `in ${length(delta)}`;
  if (delta > -1000) return "now";
  return `${length(delta)} ago`;
}

/** For what has already happened: never reads as the future, however the clocks differ. */
export function past(iso: string, nowMs: number, zone: Zone, timeZone?: string): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return iso;
  return at > nowMs ? "just now" : relative(iso, nowMs, zone, timeZone).replace(/^now$/, "just now");
}

/** For a deadline that has passed: counts up. */
export function overdueBy(iso: string, nowMs: number): string {
  return `+${length(Math.max(0, nowMs - Date.parse(iso)))}`;
}
