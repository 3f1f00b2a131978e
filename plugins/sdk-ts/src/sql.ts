/**
 * Batches of statements on the data sources that an operator has granted. A batch is one transaction: all of it or none.
 *
 * A call may run again after it was carried out: its node died before that was recorded, or the connection broke at the
 * commit. So let the first statement of a batch insert the call's idempotency key where it is unique: on a second run it
 * fails with the error `unique`, nothing else happens, and the plugin knows that it is done.
 */
import * as host from "#host";

import { Failure } from "./failure.ts";
import { json } from "./json.ts";
import type * as wit from "./wit.ts";

/**
 * A parameter. A whole number is an integer and any other a real; exact ones are given as `{ decimal: "12.50" }`, JSON as
 * `{ json: … }`, and a secret, which the host puts in, as `{ secret: "name" }`.
 */
export type Parameter =
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | Date
  | { decimal: string }
  | { json: unknown }
  | { secret: string };

export interface Statement {
  /** One that reads or changes rows. Its parameters are `$1`, `$2` and so on, whatever the database. */
  text: string;
  parameters?: Parameter[];
  /** How many rows it must change or return; another number rolls the whole batch back. */
  expectRows?: number;
}

/** Decimals are text, times are `Date`, JSON is read. An integer is exact up to 2^53. */
export type Value = null | boolean | number | string | Uint8Array | Date | object;

export interface Outcome {
  /** Changed, or returned. */
  rowsAffected: number;
  /** By their columns' names. */
  rows: Record<string, Value>[];
}

/** Why a batch was not carried out. */
export class SqlFailure extends Failure {
  constructor(readonly error: wit.SqlError) {
    super(...reading(error));
  }
}

/** Runs the statements in order, in one transaction. A failure is thrown as {@link SqlFailure}. */
export function transact(source: string, statements: Statement[]): Outcome[] {
  return guarded(() => host.transact(source, statements.map(lower)).map(lift));
}

/** Runs one statement in a transaction that cannot write. */
export function read(source: string, statement: Statement): Outcome {
  return guarded(() => lift(host.read(source, lower(statement))));
}

function guarded<T>(body: () => T): T {
  try {
    return body();
  } catch (thrown) {
    if (typeof (thrown as wit.SqlError | null)?.tag === "string") throw new SqlFailure(thrown as wit.SqlError);
    throw thrown;
  }
}

function reading(error: wit.SqlError): [wit.FailureClass, string, string] {
  const code = `sql_${error.tag.replaceAll("-", "_")}`;
  switch (error.tag) {
    case "busy":
      return ["transient", code, error.val.message];
    case "timeout":
      return ["downstream", code, "the batch took longer than it may"];
    case "unavailable":
    case "outcome-unknown":
      return ["downstream", code, error.val];
    case "unique":
      return ["conflict", code, error.val.message];
    case "guard-failed": {
      const { statement, expected, actual } = error.val;
      return ["permanent", code, `statement ${statement} had ${actual} rows, and must have ${expected}`];
    }
    case "invalid":
    case "constraint":
      return ["permanent", code, `statement ${error.val.statement}: ${error.val.message}`];
    case "too-many-calls":
      return ["permanent", "too_many_calls", "the call has used up its host calls"];
    case "denied":
    case "no-source":
    case "too-large":
      return ["permanent", code, error.val];
  }
}

function lower({ text, parameters = [], expectRows }: Statement): wit.Statement {
  return { text, parameters: parameters.map(parameter), expectRows: expectRows ?? null };
}

function parameter(given: Parameter): wit.Parameter {
  if (given !== null && typeof given === "object" && "secret" in given) return { tag: "secret", val: given.secret };
  return { tag: "value", val: value(given) };
}

function value(given: Exclude<Parameter, { secret: string }>): wit.Value {
  if (given === null) return { tag: "null" };
  if (typeof given === "boolean") return { tag: "boolean", val: given };
  if (typeof given === "string") return { tag: "text", val: given };
  if (typeof given === "number") return { tag: Number.isSafeInteger(given) ? "integer" : "real", val: given };
  if (given instanceof Uint8Array) return { tag: "bytes", val: given };
  if (given instanceof Date) return { tag: "timestamp", val: given.getTime() * 1000 };
  return "decimal" in given ? { tag: "decimal", val: given.decimal } : { tag: "json", val: json(given.json) };
}

function lift({ rowsAffected, columns, rows }: wit.Outcome): Outcome {
  const row = (values: wit.Value[]) => Object.fromEntries(values.map((value, n) => [columns[n] ?? "", read1(value)]));
  return { rowsAffected, rows: rows.map(row) };
}

function read1(value: wit.Value): Value {
  switch (value.tag) {
    case "null":
      return null;
    case "timestamp":
      return new Date(value.val / 1000);
    case "json":
      return JSON.parse(value.val);
    default:
      return value.val;
  }
}
