/** What every page shows while it waits, finds nothing, or is refused. */
import { CircleCheck, OctagonX, RefreshCw } from "lucide-react";
import { useEffect, useId, useState, type ReactNode } from "react";

import { useSelf } from "../api/queries";
import { may, needed, type Right } from "../api/rights";
import { Problem, Unreachable } from "../api/problem";
import { serverNow } from "../time/clock";
import { absolute } from "../time/format";
import { useValue } from "../api/store";
import { common, problems } from "../text";
import { zone } from "./prefs";
import { Foreign } from "./text";

export function Panel({ title, aside, children, className, level = 2 }: { title?: ReactNode; aside?: ReactNode; children: ReactNode; className?: string; level?: 2 | 3 }) {
  const id = useId();
  const H = level === 2 ? "h2" : "h3";
  return (
    <section className={className ? `panel ${className}` : "panel"} aria-labelledby={title ? id : undefined}>
      {title ? (
        <header className="panel-head">
          <H id={id}>{title}</H>
          {aside}
        </header>
      ) : null}
      {children}
    </section>
  );
}

/** Nothing at all for 150 ms, so that what comes at once does not flicker. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (!shown) return <div className="skeleton-wait" aria-busy="true" />;
  return (
    <div className="skeleton" role="status" aria-label={common.loading}>
      {Array.from({ length: lines }, (_, n) => (
        <div key={n} className="skeleton-line" />
      ))}
    </div>
  );
}

/** Nothing yet: how to begin. */
export function NothingYet({ children }: { children: ReactNode }) {
  return <div className="empty">{children}</div>;
}

/** A filter that matches nothing: how to widen it. */
export function NoMatch({ text, onClear, children }: { text: string; onClear?: () => void; children?: ReactNode }) {
  return (
    <div className="empty">
      <p>{text}</p>
      {children}
      {onClear ? (
        <button type="button" className="button" onClick={onClear}>
          {common.clearFilters}
        </button>
      ) : null}
    </div>
  );
}

/** Nothing wrong: said with the time at which it was true. */
export function NothingWrong({ text, atMs }: { text: string; atMs: number }) {
  const z = useValue(zone);
  return (
    <p className="fine">
      <CircleCheck aria-hidden size={16} />
      {common.checkedAt(text, absolute(new Date(atMs).toISOString(), z, "clock"))}
    </p>
  );
}

export function Unknown({ why = common.unknownWhy }: { why?: string }) {
  return (
    <span className="unknown" title={why}>
      {common.unknown}
    </span>
  );
}

/** A problem: title, code, pointers, Retry. `small` where data is already shown above or below it. */
export function ErrorPanel({ error, onRetry, right }: { error: unknown; onRetry?: () => void; right?: Right | "reader" }) {
  const known = error instanceof Problem ? error : undefined;
  const away = error instanceof Unreachable;
  const forbidden = known?.status === 403;
  // The role is one reason of several: another namespace is refused to whatever role.
  const role = useSelf().data?.role;
  const lacking = forbidden && role && right && right !== "reader" && !may(role, right) ? needed(right) : undefined;
  const title = away ? problems.unreachable : forbidden ? problems.forbiddenTitle : (known?.body.title ?? problems.unexpected);
  const detail = away
    ? problems.unreachableDetail
    : lacking
      ? problems.forbidden(lacking)
      : (known?.body.detail ?? (known ? undefined : error instanceof Error ? error.message : String(error)));
  return (
    <div className="error" role="alert">
      <OctagonX aria-hidden size={16} />
      <div className="error-body">
        <p className="error-title">
          <Foreign>{title}</Foreign> {known?.code ? <code>{known.code}</code> : null}
        </p>
        {detail && detail !== title ? (
          <p>
            <Foreign>{detail}</Foreign>
          </p>
        ) : null}
        {known?.body.errors?.length ? (
          <ul>
            {known.body.errors.slice(0, 20).map((fault, n) => (
              <li key={n}>
                {fault.pointer ? <code>{fault.pointer}</code> : null} <Foreign>{fault.detail ?? fault.code ?? ""}</Foreign>
              </li>
            ))}
          </ul>
        ) : null}
        {known?.retryAfterS ? <p>{problems.tooMany(String(known.retryAfterS))}</p> : null}
        {known?.body.request_id ? <p className="small">{common.requestId(known.body.request_id)}</p> : null}
      </div>
      {onRetry ? (
        <button type="button" className="button" onClick={onRetry}>
          <RefreshCw aria-hidden size={14} />
          {common.retry}
        </button>
      ) : null}
    </div>
  );
}

type Reading<T> = { data: T | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

/** Waits, or tells what went wrong, or shows; an error never replaces data that is already there. */
export function Loaded<T>({ query, children, lines, right = "reader" }: { query: Reading<T>; children: (data: T) => ReactNode; lines?: number; right?: Right | "reader" }) {
  const retry = () => void query.refetch();
  if (query.data === undefined) {
    return query.error ? <ErrorPanel error={query.error} onRetry={retry} right={right} /> : <Skeleton lines={lines} />;
  }
  return (
    <>
      {query.error ? <ErrorPanel error={query.error} onRetry={retry} right={right} /> : null}
      {children(query.data)}
    </>
  );
}

/** The server's time of reading, for "checked at". */
export function checkedAt(dataUpdatedAt: number): number {
  return dataUpdatedAt > 0 ? dataUpdatedAt + (serverNow() - Date.now()) : serverNow();
}
