/** Which timers are overdue? Where is A17? */
import { Link, useNavigate } from "@tanstack/react-router";
import { Filter as FilterIcon, Plus, RefreshCw } from "lucide-react";
import { useCallback, useMemo, useRef, useState } from "react";

import { ManyDialog } from "../../actions/ManyDialog";
import { allowed, type TimerAction } from "../../actions/rules";
import type { TimerSummary } from "../../api/model";
import { MAX_ROWS, useTimers } from "../../api/queries";
import { serverNow } from "../../time/clock";
import { actions, common, states, timers } from "../../text";
import { count } from "../../text/format";
import { usePageTitle } from "../../shell/title";
import { SavedViews } from "../../shell/SavedViews";
import { useAddress, stringifySearch } from "../../ui/address";
import { CopyButton } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { List, type Column } from "../../ui/List";
import { checkedAt, ErrorPanel, NoMatch, NothingWrong, NothingYet, Skeleton } from "../../ui/Panel";
import { Code } from "../../ui/Copy";
import { TimerBadge } from "../../ui/State";
import { shorten, visible } from "../../ui/text";
import { Ago, AtCell, useZoneName } from "../../ui/Time";
import { Filters } from "./Filters";
import { filterOf, freeze, isFiltered, orderOf, prefixOf, queryOf, shows } from "./filter";
import { useLiveRows } from "./useLiveRows";

const SELECTION_ACTIONS: TimerAction[] = ["cancel", "reschedule", "retry"];

export function TimersPage() {
  usePageTitle(timers.title);
  const navigate = useNavigate();
  const [search, set] = useAddress();
  const [opened, setOpened] = useState(() => serverNow());
  const [selected, setSelected] = useState<ReadonlyMap<string, TimerSummary>>(new Map());
  const [action, setAction] = useState<TimerAction>();

  // A relative range counts from when the view was opened or last refreshed, so that its pages belong together.
  const filter = useMemo(() => filterOf(search, opened), [search, opened]);
  const query = useMemo(() => queryOf(filter), [filter]);
  const read = useTimers(query, search["cursor"]);
  const live = useLiveRows({ queryKey: ["timers", query, search["cursor"]], filter, selecting: selected.size > 0 });
  const rows = useMemo(() => (read.data?.pages ?? []).flatMap((p) => p.items).filter((row) => shows(filter, row)), [read.data, filter]);

  const { hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = read;
  const onNearEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const refresh = () => {
    live.reset();
    setOpened(serverNow());
    void refetch();
    window.scrollTo({ top: 0 });
  };
  const toggle = (row: TimerSummary) =>
    setSelected((before) => {
      const next = new Map(before);
      if (!next.delete(row.id)) next.set(row.id, row);
      return next;
    });
  const columns = useColumns((patch) => set({ cursor: undefined, ...patch }, { push: true }));
  const last = read.data?.pages.at(-1);
  const full = read.data !== undefined && read.data.pages.length * 100 >= MAX_ROWS && last?.next_cursor !== undefined;

  return (
    <>
      <header className="page-head">
        <h1>{timers.title}</h1>
        <div className="page-tools">
          <SavedViews />
          <CopyButton label={common.copyLink} text={() => location.origin + location.pathname + stringifySearch(freeze(search, opened))} />
          <button type="button" className="button" onClick={refresh}>
            <RefreshCw aria-hidden size={14} />
            {common.refresh}
          </button>
          <Guarded right="register" kind="primary" onPress={() => void navigate({ to: "/timers/new", search: filter.type ? ({ type: filter.type } as never) : ({} as never) })}>
            <Plus aria-hidden size={14} />
            {timers.register}
          </Guarded>
        </div>
      </header>
      <Filters search={search} set={(patch) => set(patch, { push: true })} />
      {selected.size > 0 ? (
        <SelectionBar selected={[...selected.values()]} onAction={setAction} onClear={() => setSelected(new Map())} />
      ) : null}
      {read.error ? <ErrorPanel error={read.error} onRetry={() => void read.refetch()} right="reader" /> : null}
      <div className="list-bar">
        <p className="small">
          {prefixOf(filter) === undefined ? (
            <button
              type="button"
              className="link-button"
              title={timers.turnOrder}
              onClick={() => set({ cursor: undefined, order: orderOf(filter) === "due_asc" ? "due_desc" : "due_asc" }, { push: true })}
            >
              {orderOf(filter) === "due_asc" ? timers.orderDueAsc : timers.orderDue}
            </button>
          ) : (
            timers.orderKey
          )}
          {filter.state === "retrying" ? ` · ${timers.retryingNote}` : ""}
          {rows.length > 0 ? ` · ${common.rowsShown(count(rows.length) + (last?.next_cursor ? "+" : ""))}` : ""}
        </p>
        {live.fresh > 0 && selected.size === 0 ? (
          <button type="button" className="button new-rows" title={common.newRowsHint} onClick={refresh}>
            {common.newRows(count(live.fresh) + (live.more ? "+" : ""))}
          </button>
        ) : null}
        {search["cursor"] ? (
          <button type="button" className="link-button" onClick={() => set({ cursor: undefined })}>
            {common.fromStart}
          </button>
        ) : null}
      </div>
      {rows.length > 0 ? (
        <List
          label={timers.list}
          rows={rows}
          columns={columns}
          idOf={(row) => row.id}
          onOpen={(row) => void navigate({ to: "/timers/$id", params: { id: row.id } })}
          onNearEnd={onNearEnd}
          rowClass={(row) => `row-${row.state}`}
          selection={{
            has: (row) => selected.has(row.id),
            toggle,
            label: (row) => timers.selectRow(shorten(row.key)),
            all: () => setSelected(selected.size > 0 ? new Map() : new Map(rows.map((row) => [row.id, row]))),
            allLabel: timers.selectAll,
            some: selected.size > 0,
          }}
        />
      ) : read.data ? (
        <Nothing search={search} state={filter.state} atMs={checkedAt(read.dataUpdatedAt)} more={hasNextPage} busy={isFetchingNextPage} onMore={onNearEnd} onClear={() => set({ type: undefined, state: undefined, key: undefined, label: undefined, due: undefined, expired: undefined, cursor: undefined }, { push: true })} />
      ) : read.error ? null : (
        <Skeleton lines={10} />
      )}
      {isFetchingNextPage && rows.length > 0 ? <Skeleton lines={1} /> : null}
      {full ? (
        <p className="list-end">
          {common.capReached(count(MAX_ROWS))}{" "}
          <button
            type="button"
            className="button"
            onClick={() => {
              set({ cursor: last?.next_cursor }, { push: true });
              window.scrollTo({ top: 0 });
            }}
          >
            {common.goOn}
          </button>
        </p>
      ) : null}
      {action ? <ManyDialog action={action} timers={[...selected.values()]} onClose={() => setAction(undefined)} onDone={() => setSelected(new Map())} /> : null}
    </>
  );
}

function useColumns(filterBy: (patch: Record<string, string>) => void): Column<TimerSummary>[] {
  const zoneName = useZoneName();
  const latest = useRef(filterBy);
  latest.current = filterBy;
  return useMemo(() => columnsOf(zoneName, (patch) => latest.current(patch)), [zoneName]);
}

function columnsOf(zoneName: string, filterBy: (patch: Record<string, string>) => void): Column<TimerSummary>[] {
  return [
    { id: "state", head: timers.columns.state, className: "col-state", cell: (row) => <TimerBadge timer={row} /> },
    {
      id: "key",
      head: timers.columns.key,
      className: "col-key",
      cell: (row) => (
        <span className="cell-key">
          <Link to="/timers/$id" params={{ id: row.id }} className="mono clip">
            <bdi>{visible(shorten(row.key, 200))}</bdi>
          </Link>
          <span className="row-tools">
            <CopyButton bare label={timers.copyKey} text={row.key} />
            <button type="button" className="icon-button" title={timers.filterBy} aria-label={timers.filters.only(shorten(row.key, 30))} onClick={() => filterBy({ key: row.key })}>
              <FilterIcon aria-hidden size={14} />
            </button>
          </span>
        </span>
      ),
    },
    {
      id: "type",
      head: timers.columns.type,
      className: "col-type",
      cell: (row) => (
        <button type="button" className="cell-filter clip" title={timers.filters.only(row.type)} onClick={() => filterBy({ type: row.type })}>
          {row.type}
        </button>
      ),
    },
    { id: "due", head: timers.columnsShort.due(zoneName), className: "col-due num", cell: (row) => <AtCell iso={row.due_at} /> },
    { id: "attempt", head: timers.columns.attempt, className: "col-attempt num", cell: (row) => String(row.attempt) },
    {
      id: "updated",
      head: timers.columns.updated,
      className: "col-updated",
      cell: (row) => (
        <>
          <span className="cell-word">{row.settled_at ? timers.settledAt : timers.registeredAt} </span>
          <Ago iso={row.settled_at ?? row.created_at} quiet />
        </>
      ),
    },
  ];
}

function SelectionBar({ selected, onAction, onClear }: { selected: TimerSummary[]; onAction: (a: TimerAction) => void; onClear: () => void }) {
  const because = (action: TimerAction) => {
    const not = [...new Set(selected.filter((t) => !allowed(action, t.state)).map((t) => states[t.state]))];
    return not.length > 0 ? actions.off.mixed(not.join(", ")) : undefined;
  };
  return (
    <div className="selection" role="region" aria-label={timers.selected(count(selected.length))}>
      <strong>{timers.selected(count(selected.length))}</strong>
      {SELECTION_ACTIONS.map((action) => (
        <Guarded key={action} right={action as "cancel"} because={because(action)} onPress={() => onAction(action)}>
          {actions.names[action]}
        </Guarded>
      ))}
      <button type="button" className="link-button" onClick={onClear}>
        {timers.clearSelection}
      </button>
      <span className="small">{timers.selectionPaused}</span>
    </div>
  );
}

type NothingProps = { search: Record<string, string | undefined>; state: string | undefined; atMs: number; more: boolean; busy: boolean; onMore: () => void; onClear: () => void };

function Nothing({ search, state, atMs, more, busy, onMore, onClear }: NothingProps) {
  if (more) {
    return (
      <NoMatch text={timers.scanned} onClear={onClear}>
        <button type="button" className="button" aria-disabled={busy} onClick={onMore}>
          {timers.scanOn}
        </button>
      </NoMatch>
    );
  }
  const onlyOverdue = (state === "overdue" || state === "retrying") && !search["type"] && !search["key"] && !search["label"] && !search["due"] && !search["cursor"];
  if (onlyOverdue && state === "overdue") return <NothingWrong text={timers.nothingWrong} atMs={atMs} />;
  if (isFiltered(search) || search["cursor"]) return <NoMatch text={timers.noMatch} onClear={onClear} />;
  return (
    <NothingYet>
      <p>{timers.nothingYet}</p>
      <Code
        label={actions.curl}
        text={`curl -X POST ${location.origin}/v1/timers \\\n  -H "Authorization: Bearer $LAPSE_TOKEN" -H 'Content-Type: application/json' \\\n  -d '{"type":"TYPE","key":"A17","delay":"30m","payload":{}}'`}
      />
    </NothingYet>
  );
}
