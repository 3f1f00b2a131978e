/** Dead compensations sent back to their lanes: one, the selected, or a group, always with a note. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";

import { useFigures } from "../api/figures";
import { call } from "../api/http";
import type { Compensation, RedriveResult } from "../api/model";
import { Problem } from "../api/problem";
import { compensationPath } from "../api/queries";
import { useValue } from "../api/store";
import { absolute } from "../time/format";
import { actions, compensations as words } from "../text";
import { count, plural } from "../text/format";
import { hostOf } from "../pages/compensations/groups";
import { useOnlyHosts } from "../pages/compensations/useOnlyHosts";
import { zone } from "../ui/prefs";
import { Mono, shorten } from "../ui/text";
import { toast } from "../ui/toast";
import { cli } from "./command";
import { Frame, Reason } from "./frame";

type Result = { row: Compensation; how: "ok" | "changed" | "failed"; why?: string };
type Props = { rows: Compensation[]; what: string; onClose: () => void; onDone?: () => void };

export function RedriveDialog({ rows, what, onClose, onDone }: Props) {
  const client = useQueryClient();
  const [note, setNote] = useState("");
  const [byActive, setByActive] = useState(false);
  const [results, setResults] = useState<Result[]>([]);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);
  const finished = !busy && results.length > 0;
  const first = rows[0];
  const said: Said = { note: note.trim(), ...(byActive ? { revision: "active" } : {}) };
  const body = rows.length === 1 ? said : { ids: rows.map((r) => r.id).slice(0, AT_ONCE), ...said };

  const submit = async () => {
    setBusy(true);
    const all: Result[] = [];
    for (let at = 0; at < rows.length && !stopped.current; at += AT_ONCE) {
      const some = rows.slice(at, at + AT_ONCE);
      all.push(...(some.length === 1 ? [await redrive(some[0]!, said)] : await redriveMany(some, said)));
      setResults([...all]);
    }
    setBusy(false);
    void client.invalidateQueries({ queryKey: ["compensations"] });
    for (const id of new Set(rows.map((r) => r.timer_id))) void client.invalidateQueries({ queryKey: ["timer", id] });
    if (rows.length === 1) void client.invalidateQueries({ queryKey: ["compensation", first?.id] });
    if (all.every((r) => r.how === "ok")) {
      toast(actions.redrive.done(words.what(count(all.length))));
      onDone?.();
      onClose();
    }
  };

  const close = () => {
    stopped.current = true;
    if (results.length > 0) onDone?.();
    onClose();
  };

  return (
    <Frame
      title={actions.redrive.title(what)}
      will={actions.redrive.will(plural(rows.length, "compensation is", "compensations are"))}
      wont={actions.redrive.wont}
      verb={actions.verbs.redrive}
      finished={finished}
      right="redrive"
      missing={note.trim() ? undefined : actions.redrive.noteNeeded}
      busy={busy}
      call={{ method: "POST", path: rows.length === 1 ? `${compensationPath(first?.id ?? "")}/redrive` : REDRIVE_MANY, body }}
      cli={rows.length === 1 ? cli("compensation", "redrive", first?.id, "--note", note.trim(), ...(byActive ? ["--revision", "active"] : [])) : undefined}
      notice={results.length > 0 ? <Outcome results={results} all={rows.length} /> : null}
      onSubmit={() => void submit()}
      onClose={close}
    >
      <Reason value={note} onChange={setNote} label={actions.redrive.noteLabel} hint={actions.redrive.noteNeeded} required />
      <p className="field">
        <label className="approve">
          <input type="checkbox" checked={byActive} onChange={(e) => setByActive(e.target.checked)} />
          {actions.redrive.byActive}
        </label>
      </p>
      <Lane rows={rows} />
    </Frame>
  );
}

/** What goes with each call. */
type Said = { note: string; revision?: "active" };

async function redrive(row: Compensation, body: Said): Promise<Result> {
  try {
    await call<Compensation>(`${compensationPath(row.id)}/redrive`, { method: "POST", body });
    return { row, how: "ok" };
  } catch (error) {
    const moved = error instanceof Problem && error.status === 409;
    return { row, how: moved ? "changed" : "failed", why: error instanceof Error ? error.message : String(error) };
  }
}

/** What the server takes in one call. */
const AT_ONCE = 500;
const REDRIVE_MANY = "/v1/compensations/redrive";

async function redriveMany(rows: Compensation[], said: Said): Promise<Result[]> {
  try {
    const { data } = await call<RedriveResult>(REDRIVE_MANY, { method: "POST", body: { ids: rows.map((r) => r.id), ...said } });
    const skipped = new Set(data.skipped_ids ?? []);
    return rows.map((row) => (skipped.has(row.id) ? { row, how: "changed", why: actions.redrive.notDead } : { row, how: "ok" }));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return rows.map((row) => ({ row, how: "failed", why }));
  }
}

/** Where they go: the host, its breaker if it is open, and how fast. */
function Lane({ rows }: { rows: Compensation[] }) {
  const { stats } = useFigures();
  const z = useValue(zone);
  const only = useOnlyHosts();
  const hosts = [...new Set(rows.map((r) => hostOf(r, only) ?? words.group.noHost))].slice(0, 5);
  const open = stats?.breakers.filter((b) => b.state !== "closed" && hosts.some((host) => b.host === host || b.host.startsWith(`${host}:`)));
  return (
    <dl className="sides">
      <dt>{actions.redrive.host}</dt>
      <dd>
        {hosts.map((host) => (
          <Mono key={host}>{host}</Mono>
        ))}
      </dd>
      {open ? (
        <>
          <dt>{actions.redrive.breaker}</dt>
          <dd>
            {open.length === 0
              ? actions.redrive.breakerClosed
              : open.map((b) => <div key={b.host}>{actions.redrive.breakerOpen(b.until ? absolute(b.until, z, "clock") : "?")}</div>)}
          </dd>
        </>
      ) : null}
      <dt>{actions.redrive.rate}</dt>
      <dd>{actions.redrive.rateText}</dd>
    </dl>
  );
}

function Outcome({ results, all }: { results: Result[]; all: number }) {
  const bad = results.filter((r) => r.how !== "ok");
  return (
    <div className="notice" role="status">
      <p>{actions.many.progress(count(results.length), count(all))}</p>
      {bad.length > 0 ? (
        <>
          <p>{actions.redrive.left(count(bad.length))}</p>
          <ul className="keys">
            {bad.slice(0, 20).map((r) => (
              <li key={r.row.id}>
                <Link to="/compensations/$id" params={{ id: r.row.id }}>
                  <Mono>{shorten(r.row.timer_key ?? r.row.id)}</Mono>
                </Link>{" "}
                <span className="small">{r.why}</span>
              </li>
            ))}
          </ul>
        </>
      ) : null}
    </div>
  );
}
