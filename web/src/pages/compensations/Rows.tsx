import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";

import { RedriveDialog } from "../../actions/RedriveDialog";
import type { Compensation } from "../../api/model";
import { MAX_ROWS, useCompensations } from "../../api/queries";
import { parseDuration } from "../../time/duration";
import { serverNow } from "../../time/clock";
import { actions, attempt, common, compensations as words, timers } from "../../text";
import { count } from "../../text/format";
import type { Search } from "../../ui/address";
import { Guarded } from "../../ui/Guarded";
import { List, type Column } from "../../ui/List";
import { ErrorPanel, NoMatch, NothingYet, Skeleton } from "../../ui/Panel";
import { Badge } from "../../ui/State";
import { Foreign, shorten, visible } from "../../ui/text";
import { Ago } from "../../ui/Time";
import { diedAt, hostOf, type OnlyHosts } from "./groups";
import { useLiveRows } from "./useLive";
import { useOnlyHosts } from "./useOnlyHosts";

type Props = { search: Search; set: (patch: Search, how?: { push?: boolean }) => void };

/** Host, error and age are told apart here, among the rows that the server sent. `-` stands for no host. */
export function passes(row: Compensation, search: Search, nowMs: number, only?: OnlyHosts): boolean {
  if (search["host"] !== undefined && (hostOf(row, only) ?? "-") !== search["host"]) return false;
  if (search["error"] && row.last_error?.class !== search["error"]) return false;
  const age = search["age"] ? parseDuration(search["age"]) : undefined;
  return age === undefined || nowMs - diedAt(row) >= age;
}

export function Rows({ search, set }: Props) {
  const navigate = useNavigate();
  const state = search["state"] === "all" ? undefined : (search["state"] ?? "dead");
  const query = useMemo(() => ({ state, type: search["type"], kind: search["kind"] }), [state, search["type"], search["kind"]]);
  const read = useCompensations(query, search["cursor"]);
  useLiveRows(["compensations", query, search["cursor"]]);
  const only = useOnlyHosts();
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = read;
  const rows = useMemo(() => {
    const now = serverNow();
    return (read.data?.pages ?? []).flatMap((p) => p.items).filter((row) => passes(row, search, now, only));
  }, [read.data, search, only]);
  const [selected, setSelected] = useState<ReadonlyMap<string, Compensation>>(new Map());
  const [redriving, setRedriving] = useState<Compensation[]>();
  const onNearEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const toggle = (row: Compensation) =>
    setSelected((before) => {
      const next = new Map(before);
      if (!next.delete(row.id)) next.set(row.id, row);
      return next;
    });
  const picked = [...selected.values()];
  const notDead = picked.some((r) => r.state !== "dead");
  const local = search["host"] !== undefined || search["error"] || search["age"];
  const filtered = local || search["type"] || search["kind"] || state;
  const last = read.data?.pages.at(-1);
  const full = read.data !== undefined && read.data.pages.length * 100 >= MAX_ROWS && last?.next_cursor !== undefined;
  const clear = () => set({ state: "all", host: undefined, error: undefined, kind: undefined, type: undefined, age: undefined, cursor: undefined }, { push: true });

  return (
    <>
      <div className="selection" role="region" aria-label={timers.selected(count(selected.size))}>
        <strong>{timers.selected(count(selected.size))}</strong>
        <Guarded right="redrive" because={selected.size === 0 ? actions.off.noneSelected : notDead ? actions.off.onlyDead : undefined} onPress={() => setRedriving(picked)}>
          {words.redriveSelected}
        </Guarded>
        {selected.size > 0 ? (
          <button type="button" className="link-button" onClick={() => setSelected(new Map())}>
            {timers.clearSelection}
          </button>
        ) : null}
        {local ? <span className="small">{words.notAll}</span> : null}
      </div>
      {read.error ? <ErrorPanel error={read.error} onRetry={() => void read.refetch()} right="reader" /> : null}
      {rows.length > 0 ? (
        <List
          label={words.title}
          rows={rows}
          columns={COLUMNS}
          idOf={(row) => row.id}
          onOpen={(row) => void navigate({ to: "/compensations/$id", params: { id: row.id } })}
          onNearEnd={onNearEnd}
          rowClass={(row) => `row-${row.state}`}
          selection={{
            has: (row) => selected.has(row.id),
            toggle,
            label: (row) => timers.selectRow(`${row.kind} ${shorten(row.timer_key ?? row.id)}`),
            all: () => setSelected(selected.size > 0 ? new Map() : new Map(rows.map((row) => [row.id, row]))),
            allLabel: timers.selectAll,
            some: selected.size > 0,
          }}
        />
      ) : read.data ? (
        hasNextPage ? (
          <NoMatch text={timers.scanned} onClear={clear}>
            <button type="button" className="button" onClick={onNearEnd}>
              {timers.scanOn}
            </button>
          </NoMatch>
        ) : filtered ? (
          <NoMatch text={words.noMatch} onClear={clear} />
        ) : (
          <NothingYet>
            <p>{words.nothingYet}</p>
          </NothingYet>
        )
      ) : read.error ? null : (
        <Skeleton lines={8} />
      )}
      {full ? (
        <p className="list-end">
          {common.capReached(count(MAX_ROWS))}{" "}
          <button type="button" className="button" onClick={() => set({ cursor: last?.next_cursor }, { push: true })}>
            {common.goOn}
          </button>
        </p>
      ) : null}
      {redriving ? <RedriveDialog rows={redriving} what={words.what(count(redriving.length))} onClose={() => setRedriving(undefined)} onDone={() => setSelected(new Map())} /> : null}
    </>
  );
}

const COLUMNS: Column<Compensation>[] = [
  { id: "state", head: words.columns.state, className: "col-state", cell: (row) => <Badge look={row.state} extra={row.attempt > 1 ? attempt(row.attempt) : undefined} /> },
  {
    id: "kind",
    head: words.columns.kind,
    className: "col-type",
    cell: (row) => (
      <Link to="/compensations/$id" params={{ id: row.id }} className="clip">
        {row.kind}
      </Link>
    ),
  },
  {
    id: "key",
    head: words.columns.key,
    className: "col-key",
    cell: (row) => (
      <Link to="/timers/$id" params={{ id: row.timer_id }} className="mono clip">
        <bdi>{visible(shorten(row.timer_key ?? row.timer_id, 120))}</bdi>
      </Link>
    ),
  },
  { id: "age", head: words.columns.age, className: "col-age", cell: (row) => <Ago iso={row.settled_at ?? row.created_at} quiet /> },
  {
    id: "error",
    head: words.columns.error,
    className: "col-error",
    cell: (row) =>
      row.last_error ? (
        <span className="clip" title={row.last_error.message}>
          <code>{row.last_error.class}</code> <Foreign>{shorten(row.last_error.message ?? row.last_error.code ?? "", 160)}</Foreign>
        </span>
      ) : (
        "–"
      ),
  },
];
