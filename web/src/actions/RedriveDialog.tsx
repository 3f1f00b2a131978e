/** Dead compensations sent back to their lanes: one, the selected, or a group, always with a note. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";

import { call } from "../api/http";
import { latestStats } from "../api/live";
import type { Compensation } from "../api/model";
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
  const [results, setResults] = useState<Result[]>([]);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);
  const finished = !busy && results.length > 0;
  const first = rows[0];
  const body = { note: note.trim() };

  const submit = async () => {
    setBusy(true);
    const all: Result[] = [];
    for (const row of rows) {
      if (stopped.current) break;
      const result = await redrive(row, body);
      all.push(result);
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
      call={{ method: "POST", path: `${compensationPath(first?.id ?? "")}/redrive`, body }}
      cli={cli("compensation", "redrive", first?.id, "--note", note.trim())}
      notice={results.length > 0 ? <Outcome results={results} all={rows.length} /> : null}
      onSubmit={() => void submit()}
      onClose={close}
    >
      <Reason value={note} onChange={setNote} label={actions.redrive.noteLabel} hint={actions.redrive.noteNeeded} required />
      <Lane rows={rows} />
    </Frame>
  );
}

async function redrive(row: Compensation, body: { note: string }): Promise<Result> {
  try {
    await call<Compensation>(`${compensationPath(row.id)}/redrive`, { method: "POST", body });
    return { row, how: "ok" };
  } catch (error) {
    const moved = error instanceof Problem && error.status === 409;
    return { row, how: moved ? "changed" : "failed", why: error instanceof Error ? error.message : String(error) };
  }
}

/** Where they go: the host, its breaker if it is open, and how fast. */
function Lane({ rows }: { rows: Compensation[] }) {
  const stats = useValue(latestStats);
  const z = useValue(zone);
  const only = useOnlyHosts();
  const hosts = [...new Set(rows.map((r) => hostOf(r, only) ?? words.group.noHost))].slice(0, 5);
  const kinds = new Set(rows.map((r) => r.kind));
  const open = stats?.breakers?.filter((b) => b.state !== "closed" && (b.kind === undefined || kinds.has(b.kind)));
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
              : open.map((b) => <div key={`${b.type}${b.kind}`}>{actions.redrive.breakerOpen(b.until ? absolute(b.until, z, "clock") : "?")}</div>)}
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
