// The host in a test: see testing.ts.
import type { HttpError, Level, Outcome, Request, Response, SecretHeader, SqlError, Statement } from "../wit.ts";

export const fake = {
  /** Requests that were made. */
  requests: [] as (Request & { secrets: SecretHeader[] })[],
  /** Lines that were logged. */
  lines: [] as { level: Level; message: string }[],
  /** Steps of counters that were taken outside of a decision. */
  counts: [] as { name: string; step: number }[],
  /** Answers a request, or throws an {@link HttpError}. Without one, every host is denied. */
  http: (_request: Request, _secrets: SecretHeader[]): Response => {
    throw { tag: "denied", val: "no host is granted" } satisfies HttpError;
  },
  /** Answers a batch, or throws an {@link SqlError}. Without one, every source is denied. */
  sql: (_source: string, _statements: Statement[]): Outcome[] => {
    throw { tag: "denied", val: "no data source is granted" } satisfies SqlError;
  },
};

export function send(request: Request): Response {
  return sendWithSecrets(request, []);
}

export function sendWithSecrets(request: Request, secrets: SecretHeader[]): Response {
  fake.requests.push({ ...request, secrets });
  return fake.http(request, secrets);
}

export function write(level: Level, message: string): void {
  fake.lines.push({ level, message });
}

export function count(name: string, step: number): void {
  fake.counts.push({ name, step });
}

export function transact(source: string, statements: Statement[]): Outcome[] {
  return fake.sql(source, statements);
}

export function read(source: string, statement: Statement): Outcome {
  return fake.sql(source, [statement])[0]!;
}
