/** A long list: virtual rows in a real table, read page by page. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

import { useValue } from "../api/store";
import { density } from "./prefs";
import { useRowKeys } from "./useRows";

export type Column<T> = {
  id: string;
  head: ReactNode;
  cell: (row: T) => ReactNode;
  className?: string;
};

type Selection<T> = { has: (row: T) => boolean; toggle: (row: T) => void; label: (row: T) => string; all: () => void; allLabel: string; some: boolean };

type Props<T> = {
  label: string;
  rows: readonly T[];
  columns: Column<T>[];
  idOf: (row: T) => string;
  onOpen: (row: T) => void;
  selection?: Selection<T>;
  onNearEnd?: () => void;
  rowClass?: (row: T) => string;
};

const NORMAL = 36;
const DENSE = 28;
const CARD = 100;
/** Rows before the end at which the next page is asked for. */
const NEAR_END = 25;

const phone = matchMedia("(max-width: 700px)");

function usePhone(): boolean {
  const [is, setIs] = useState(phone.matches);
  useEffect(() => {
    const on = () => setIs(phone.matches);
    phone.addEventListener("change", on);
    return () => phone.removeEventListener("change", on);
  }, []);
  return is;
}

/** Knows where the list begins on the page; what scrolling draws anew is below. */
export function List<T>(props: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const known = useRef(0);
  const find = useCallback(() => {
    const top = (box.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
    if (Math.abs(top - known.current) <= 1) return;
    known.current = top;
    setMargin(top);
  }, []);
  useLayoutEffect(find);
  useEffect(() => {
    const resized = new ResizeObserver(find);
    resized.observe(document.body);
    return () => resized.disconnect();
  }, [find]);
  return (
    <div ref={box} className="list">
      <Rows {...props} margin={margin} />
    </div>
  );
}

function Rows<T>({ label, rows, columns, idOf, onOpen, selection, onNearEnd, rowClass, margin }: Props<T> & { margin: number }) {
  const isPhone = usePhone();
  const dense = useValue(density) === "dense";
  const height = isPhone ? CARD : dense ? DENSE : NORMAL;

  const latest = useRef({ idOf, selection });
  latest.current = { idOf, selection };
  const onToggle = useCallback((row: T) => latest.current.selection?.toggle(row), []);
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: useCallback(() => height, [height]),
    overscan: 10,
    scrollMargin: margin,
    getItemKey: useCallback(
      (n: number) => {
        const row = rows[n];
        return row ? latest.current.idOf(row) : n;
      },
      [rows],
    ),
  });
  const measure = useRef(virtual);
  measure.current = virtual;
  useEffect(() => measure.current.measure(), [height]);

  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - NEAR_END) onNearEnd?.();
  }, [last, rows.length, onNearEnd]);

  useRowKeys({
    length: rows.length,
    onOpen: (n) => {
      const row = rows[n];
      if (row) onOpen(row);
    },
    onSelect: selection
      ? (n) => {
          const row = rows[n];
          if (row) selection.toggle(row);
        }
      : undefined,
    scrollTo: (n) => virtual.scrollToIndex(n, { align: "auto" }),
  });

  const before = (items[0]?.start ?? margin) - margin;
  const after = virtual.getTotalSize() - ((items.at(-1)?.end ?? margin) - margin);
  const width = columns.length + (selection ? 1 : 0);
  return (
    <table aria-label={label} aria-rowcount={rows.length + 1} className="rows">
      <thead>
        <tr aria-rowindex={1}>
          {selection ? (
            <th scope="col" className="check">
              <input type="checkbox" aria-label={selection.allLabel} checked={selection.some} onChange={selection.all} />
            </th>
          ) : null}
          {columns.map((c) => (
            <th key={c.id} scope="col" className={c.className}>
              {c.head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {before > 0 ? <Spacer width={width} height={before} /> : null}
        {items.map((item) => {
          const row = rows[item.index];
          return row ? (
            <Row key={item.key} row={row} index={item.index} height={height} columns={columns} className={rowClass?.(row)} onToggle={onToggle} selectLabel={selection?.label(row)} isSelected={selection?.has(row)} />
          ) : null;
        })}
        {after > 0 ? <Spacer width={width} height={after} /> : null}
      </tbody>
    </table>
  );
}

type RowProps<T> = { row: T; index: number; height: number; columns: Column<T>[]; className?: string; onToggle: (row: T) => void; selectLabel?: string; isSelected?: boolean };

function PlainRow<T>({ row, index, height, columns, className, onToggle, selectLabel, isSelected }: RowProps<T>) {
  return (
    <tr data-row={index} aria-rowindex={index + 2} className={className} aria-selected={isSelected} style={{ height }}>
      {selectLabel !== undefined ? (
        <td className="check">
          <input type="checkbox" aria-label={selectLabel} checked={isSelected} onChange={() => onToggle(row)} />
        </td>
      ) : null}
      {columns.map((c) => (
        <td key={c.id} className={c.className} data-label={typeof c.head === "string" ? c.head : undefined}>
          {c.cell(row)}
        </td>
      ))}
    </tr>
  );
}

/** A row that is on the screen already is not drawn again as the list is scrolled, or grows. */
const Row = memo(PlainRow) as typeof PlainRow;

function Spacer({ width, height }: { width: number; height: number }) {
  return (
    <tr aria-hidden className="spacer">
      <td colSpan={width} style={{ height }} />
    </tr>
  );
}
