/** Dead compensations by host, error class and kind. */
import type { Compensation, TimerType } from "../../api/model";
import { parseGrant } from "../../ui/Grants";

export type Group = {
  id: string;
  host: string | undefined;
  class: string;
  kind: string;
  rows: Compensation[];
  oldest: number;
  newest: number;
};

const URL_IN_TEXT = /\bhttps?:\/\/([^\s/"'<>?#]+)/i;
const HOST_IN_TEXT = /\b((?:[a-z0-9-]+\.)+[a-z0-9-]+:\d{1,5}|localhost:\d{1,5}|\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}|\[[0-9a-f:]+\]:\d{1,5})\b/i;

/** By type and revision: the one host that its compensations may reach at all. */
export type OnlyHosts = ReadonlyMap<string, string>;

export function onlyHosts(types: readonly Pick<TimerType, "name" | "revision" | "grants">[]): OnlyHosts {
  const only = new Map<string, string>();
  for (const type of types) {
    const grants = (type.grants ?? []).map(parseGrant).filter((g) => g?.export === "compensate" && g.right === "http");
    if (grants.length === 1 && grants[0]) only.set(`${type.name}@${type.revision}`, grants[0].what);
  }
  return only;
}

/**
 * The host that failed: the server's own word, else one that the error's text names, else the only one that the revision
 * may reach. Never a guess beyond that.
 */
export function hostOf(row: Pick<Compensation, "host" | "last_error" | "type" | "revision">, only?: OnlyHosts): string | undefined {
  if (row.host) return row.host;
  const message = row.last_error?.message ?? "";
  const named = URL_IN_TEXT.exec(message)?.[1] ?? HOST_IN_TEXT.exec(message)?.[1];
  return named?.replace(/^.*@/, "").toLowerCase() ?? only?.get(`${row.type}@${row.revision}`);
}

/** When it died; a row that does not say counts from when it was written. */
export function diedAt(row: Compensation): number {
  return Date.parse(row.settled_at ?? row.created_at ?? "") || 0;
}

/** Oldest first: what has waited longest for a person. */
export function groupDead(rows: readonly Compensation[], only?: OnlyHosts): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const host = hostOf(row, only);
    const kind = row.kind;
    const cls = row.last_error?.class ?? "";
    const id = JSON.stringify([host ?? "", cls, kind]);
    const at = diedAt(row);
    const group = groups.get(id);
    if (group) {
      group.rows.push(row);
      group.oldest = Math.min(group.oldest, at);
      group.newest = Math.max(group.newest, at);
    } else {
      groups.set(id, { id, host, class: cls, kind, rows: [row], oldest: at, newest: at });
    }
  }
  return [...groups.values()].sort((a, b) => a.oldest - b.oldest || a.id.localeCompare(b.id));
}
