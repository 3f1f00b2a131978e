import { Link, useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { useCallback, useEffect, useRef } from "react";

import { health } from "../api/health";
import { call } from "../api/http";
import { useValue } from "../api/store";
import { common, problems, shell } from "../text";
import { NotFetched } from "./pages";

export function NotFound() {
  return (
    <div className="empty">
      <h1>{shell.notFound}</h1>
      <Link to="/" className="button">
        {shell.nav.overview}
      </Link>
    </div>
  );
}

/** A page that cannot be shown: its code could not be fetched, or it has a fault. */
export function Broken({ error, reset }: ErrorComponentProps) {
  return error instanceof NotFetched ? <Unfetched reset={reset} /> : <Fault error={error} reset={reset} />;
}

/** Tries again by itself once the server is back. */
function Unfetched({ reset }: { reset: () => void }) {
  const router = useRouter();
  const { away } = useValue(health);
  const tries = useRef(0);
  const again = useCallback(() => {
    tries.current += 1;
    // A server that answers, and does not have the file, has another version of the console.
    if (!health.get().away && tries.current > 1) return location.reload();
    void router.invalidate().then(reset);
  }, [router, reset]);
  const wasAway = useRef(away);
  useEffect(() => {
    if (wasAway.current && !away) again();
    wasAway.current = away;
  }, [away, again]);
  // Nothing else may have asked anything of the server yet: the banner is to know that it is away.
  useEffect(() => void call("/healthz").catch(() => undefined), []);
  return (
    <div className="empty" role="alert">
      <h1>{problems.notFetched}</h1>
      <p>{away ? problems.notFetchedAway : problems.notFetchedDetail}</p>
      <button type="button" className="button" onClick={again}>
        {common.retry}
      </button>
    </div>
  );
}

function Fault({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="empty" role="alert">
      <h1>{problems.unexpected}</h1>
      <p>{problems.unexpectedDetail}</p>
      <pre>{error instanceof Error ? error.message : String(error)}</pre>
      <button type="button" className="button" onClick={reset}>
        {common.retry}
      </button>
    </div>
  );
}
