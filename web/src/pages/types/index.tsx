/** What runs, with which rights? Failures first. */
import { Link, useNavigate } from "@tanstack/react-router";
import { Upload } from "lucide-react";

import { useMemo } from "react";

import { useFigures } from "../../api/figures";
import type { Capped, TimerType, TypeStats } from "../../api/model";
import { useTypes } from "../../api/queries";
import { types as words } from "../../text";
import { capped, millis } from "../../text/format";
import { usePageTitle } from "../../shell/title";
import { Code } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { Loaded, NothingYet, Unknown } from "../../ui/Panel";

export function TypesPage() {
  usePageTitle(words.title);
  const navigate = useNavigate();
  const read = useTypes();
  const { stats } = useFigures();
  return (
    <>
      <header className="page-head">
        <h1>{words.title}</h1>
        <div className="page-tools">
          <Guarded right="upload" kind="primary" onPress={() => void navigate({ to: "/types/upload" })}>
            <Upload aria-hidden size={14} />
            {words.upload}
          </Guarded>
        </div>
      </header>
      <Loaded query={read} lines={6}>
        {({ items }) => (items.length === 0 ? <Empty /> : <Table items={items} stats={stats?.types} />)}
      </Loaded>
    </>
  );
}

function Empty() {
  return (
    <NothingYet>
      <p>{words.nothingYet}</p>
      <Code label="lapse" text="lapse plugin push plugin.wasm --type my-type" />
    </NothingYet>
  );
}

function Table({ items, stats }: { items: TimerType[]; stats: TypeStats[] | undefined }) {
  const by = new Map(stats?.map((s) => [s.type, s]));
  const bad = (t: TimerType) => (by.get(t.name)?.failed_1h?.count ?? 0) + (by.get(t.name)?.dead?.count ?? 0);
  const isTold = stats !== undefined;
  // As it was when the types were read: a row that moves while somebody reaches for it is another row.
  const rows = useMemo(() => [...items].sort((a, b) => bad(b) - bad(a) || a.name.localeCompare(b.name)), [items, isTold]);
  return (
    <div className="scroll-x">
      <table className="plain plain-wide cards">
        <thead>
          <tr>
            <th scope="col">{words.columns.type}</th>
            <th scope="col" className="num">{words.columns.revision}</th>
            <th scope="col">{words.columns.state}</th>
            <th scope="col" className="num">{words.columns.lateness}</th>
            <th scope="col" className="num">{words.columns.failures}</th>
            <th scope="col" className="num">{words.columns.dead}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((t) => {
            const s = by.get(t.name);
            return (
              <tr key={t.name}>
                <th scope="row">
                  <Link to="/types/$type" params={{ type: t.name }}>
                    {t.name}
                  </Link>
                  {t.plugin ? (
                    <span className="small">
                      {" "}
                      {t.plugin.name} {t.plugin.version}
                    </span>
                  ) : null}
                </th>
                <td className="num" data-label={words.columns.revision}>{String(t.revision)}</td>
                <td data-label={words.columns.state}>{(t.paused ?? s?.paused) ? <span className="badge badge-overdue">{words.paused}</span> : words.active}</td>
                <td className="num" data-label={words.columns.lateness}>{s?.lateness_p99_ms === undefined ? <Unknown /> : millis(s.lateness_p99_ms)}</td>
                <td className="num" data-label={words.columns.failures}>
                  <Count of={s?.failed_1h} to="/timers" search={{ type: t.name, state: "failed" }} />
                </td>
                <td className="num" data-label={words.columns.dead}>
                  <Count of={s?.dead} to="/compensations" search={{ type: t.name }} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Count({ of, to, search }: { of: Capped | undefined; to: string; search: Record<string, string> }) {
  const text = capped(of);
  if (text === undefined) return <Unknown />;
  if (of?.count === 0) return <>{text}</>;
  return (
    <Link to={to} search={search as never} className="bad">
      {text}
    </Link>
  );
}
