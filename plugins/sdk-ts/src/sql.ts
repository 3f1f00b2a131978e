/** Batches of statements on the data sources that an operator has granted. */
export { transact } from "#host";
export type { Outcome, SqlError, Statement, Value } from "./wit.ts";
