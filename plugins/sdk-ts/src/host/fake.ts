// The host in a test: see testing.ts.
import type { HttpError, Level, Outcome, Request, Response, SqlError, Statement } from "../wit.ts";

export const fake = {
  /** Requests that were made. */
  requests: [] as Request[],
  /** Lines that were logged. */
  lines: [] as { level: Level; message: string }[],
  /** Answers a request, or throws an {@link HttpError}. Without one, every host is denied. */
  http: (_request: Request): Response => {
    throw { tag: "denied", val: "no host is granted" } satisfies HttpError;
  },
  /** Answers a batch, or throws an {@link SqlError}. Without one, every source is denied. */
  sql: (_source: string, _statements: Statement[]): Outcome[] => {
    throw { tag: "denied", val: "no data source is granted" } satisfies SqlError;
  },
};

export function send(request: Request): Response {
  fake.requests.push(request);
  return fake.http(request);
}

export function write(level: Level, message: string): void {
  fake.lines.push({ level, message });
}

export function transact(source: string, statements: Statement[]): Outcome[] {
  return fake.sql(source, statements);
}
