import { Link, type ErrorComponentProps } from "@tanstack/react-router";

import { common, problems, shell } from "../text";

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

/** A fault of the console's own. */
export function Broken({ error, reset }: ErrorComponentProps) {
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
