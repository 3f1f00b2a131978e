import { afterEach, describe, expect, it } from "vitest";

import { observe, offsetMs, resetForTest } from "../src/time/clock";
import { DAY, HOUR, MINUTE, durationText, length, parseDuration } from "../src/time/duration";
import { absolute, cell, overdueBy, past, relative, zoneName } from "../src/time/format";
import { fromField, toField } from "../src/time/input";

const NOW = Date.parse("2026-11-30T12:00:00.000Z");
const at = (ms: number) => new Date(NOW + ms).toISOString();

describe("lengths", () => {
  it("shows seconds under an hour, minutes under a day, then days", () => {
    expect(length(4 * MINUTE + 12_000)).toBe("4 m 12 s");
    expect(length(59 * MINUTE + 59_999)).toBe("59 m 59 s");
    expect(length(HOUR)).toBe("1 h 0 m");
    expect(length(23 * HOUR + 59 * MINUTE)).toBe("23 h 59 m");
    expect(length(DAY)).toBe("1 d");
    expect(length(25 * DAY)).toBe("25 d");
  });

  it("reads durations as the API writes them", () => {
    expect(parseDuration("25d")).toBe(25 * DAY);
    expect(parseDuration("P1DT2H")).toBe(26 * HOUR);
    expect(parseDuration("500ms")).toBe(500);
    for (const bad of ["", "P", "PT", "1.5h", "1y", "-5m", "5 m"]) expect(parseDuration(bad), bad).toBeUndefined();
    expect(durationText("1800000ms")).toBe("30 m");
  });
});

describe("relative times", () => {
  it("counts to 25 days ahead, which is beyond what a timer of the browser's holds", () => {
    expect(relative(at(25 * DAY), NOW, "utc")).toBe("in 25 d");
  });

  it("leads with the date beyond a year", () => {
    expect(relative("9999-12-31T23:59:59.000Z", NOW, "utc")).toBe("9999-12-31 23:59:59 UTC");
  });

  it("counts up once a deadline has passed", () => {
    expect(overdueBy(at(-252_000), NOW)).toBe("+4 m 12 s");
    expect(overdueBy(at(5_000), NOW)).toBe("+0 s");
  });

  it("never shows the past as the future, however the clocks differ", () => {
    expect(past(at(3_000), NOW, "utc")).toBe("just now");
    expect(past(at(-3_000), NOW, "utc")).toBe("3 s ago");
  });
});

describe("absolute times", () => {
  it("are shown in the zone that is asked for, which is named", () => {
    const iso = "2026-11-30T12:30:05.123Z";
    expect(absolute(iso, "utc", "full")).toBe("2026-11-30 12:30:05.123 UTC");
    expect(absolute(iso, "local", "full", "Europe/Berlin")).toBe("2026-11-30 13:30:05.123 UTC+1");
    expect(absolute(iso, "local", "seconds", "Pacific/Kiritimati")).toBe("2026-12-01 02:30:05 UTC+14");
    expect(absolute(iso, "local", "seconds", "America/New_York")).toBe("2026-11-30 07:30:05 UTC\u22125");
    expect(zoneName("local", NOW, "Pacific/Kiritimati")).toBe("UTC+14");
  });

  it("fall back to UTC where the local year would be 10000", () => {
    const end = "9999-12-31T23:59:59.999Z";
    expect(absolute(end, "local", "full", "Pacific/Kiritimati")).toBe("9999-12-31 23:59:59.999 UTC");
    expect(cell(end, "local", NOW, "Pacific/Kiritimati")).toBe("9999-12-31 23:59:59 UTC");
    expect(absolute(end, "local", "seconds", "America/New_York")).toBe("9999-12-31 18:59:59 UTC\u22125");
  });

  it("lead with the day only when it is not today", () => {
    expect(cell(at(HOUR), "utc", NOW)).toBe("13:00:00");
    expect(cell(at(DAY), "utc", NOW)).toBe("2026-12-01 12:00:00");
  });

  it("show what they cannot read as it is", () => {
    expect(absolute("not a time", "utc")).toBe("not a time");
  });
});

describe("date fields", () => {
  it("go there and back in UTC", () => {
    expect(fromField("2026-11-30T12:30", "utc")).toBe("2026-11-30T12:30:00.000Z");
    expect(toField("2026-11-30T12:30:00.000Z", "utc")).toBe("2026-11-30T12:30:00");
    expect(fromField("9999-12-31T23:59:59", "utc")).toBe("9999-12-31T23:59:59.000Z");
    expect(fromField("10000-01-01T00:00", "utc")).toBeUndefined();
    expect(fromField("", "utc")).toBeUndefined();
  });

  it("go there and back in the local zone", () => {
    const iso = fromField("2026-06-01T08:15:30", "local") ?? "";
    expect(toField(iso, "local")).toBe("2026-06-01T08:15:30");
  });
});

describe("the server's clock", () => {
  afterEach(resetForTest);

  it("is estimated by the answer that was least delayed", () => {
    observe(at(-300), NOW);
    observe(at(-40), NOW);
    observe(at(-900), NOW);
    expect(offsetMs()).toBe(-40);
  });

  it("follows a browser clock that is an hour wrong, and its correction", () => {
    observe(at(-HOUR), NOW);
    expect(offsetMs()).toBe(-HOUR);
    observe(at(-50), NOW);
    expect(offsetMs()).toBe(-50);
  });
});
