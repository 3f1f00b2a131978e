// Written by `npm run types` from wit/v1: change that.

// interface http

export type Method = "get" | "head" | "post" | "put" | "patch" | "delete";

export interface Header {
  name: string;
  value: string;
}

export interface Request {
  method: Method;
  /** `http` or `https`, without user or password. */
  url: string;
  /** Without those that belong to the connection (`Host`, `Content-Length`, `Connection` and the like). */
  headers: Header[];
  body: Uint8Array | null;
  /** Milliseconds for the whole exchange; the host's bound where it is not said, or is longer. */
  timeoutMs: number | null;
}

export interface Response {
  status: number;
  /** Names in lower case. Values that are not UTF-8 are left out. */
  headers: Header[];
  body: Uint8Array;
}

export type HttpError =
  /** No grant for this host and port, or an address that may not be reached. Says which. */
  | { tag: "denied"; val: string }
  /** The request is not one that can be sent. Says why. */
  | { tag: "invalid"; val: string }
  /** No whole answer in time. The request may have been carried out. */
  | { tag: "timeout" }
  /** The request or the answer is over this many bytes. */
  | { tag: "too-large"; val: number }
  /** The call has used up its host calls. */
  | { tag: "too-many-calls" }
  /** More redirects than are followed. */
  | { tag: "too-many-redirects" }
  /** The host could not be found or reached, or the exchange broke off. It may have been carried out. */
  | { tag: "connection"; val: string };

export type Send = (request: Request) => Response;

/** A header whose value holds a secret, which the host puts in: the plugin never sees it. */
export interface SecretHeader {
  name: string;
  /** Stands before the secret, such as `Bearer `. */
  prefix: string;
  /** The secret's name. It needs a grant of its own, to the export that runs. */
  secret: string;
}

/** As `send`, with secrets in headers. They go to the host that the request names, and not on to another one that it redirects to. */
export type SendWithSecrets = (request: Request, secrets: SecretHeader[]) => Response;

// interface log

export type Level = "trace" | "debug" | "info" | "warn" | "error";

export type Write = (level: Level, message: string) => void;

/** A step of a counter of the plugin's own, which counts also if the call fails; a decision has its counters among its effects. At most 16 in a call, the name `[a-z][a-z0-9_-]{0,62}`: what is beyond that is not counted. */
export type Count = (name: string, step: number) => void;

// interface sql

export type Value =
  | { tag: "null" }
  | { tag: "boolean"; val: boolean }
  | { tag: "integer"; val: number }
  | { tag: "real"; val: number }
  /** An exact number: decimal digits, with a sign and a point where it has them. */
  | { tag: "decimal"; val: string }
  | { tag: "text"; val: string }
  | { tag: "bytes"; val: Uint8Array }
  /** Microseconds since 1970-01-01T00:00:00Z. */
  | { tag: "timestamp"; val: number }
  | { tag: "json"; val: string };

export type Parameter =
  | { tag: "value"; val: Value }
  /** The text of the secret of this name, which the host puts in, if it is granted to the export that runs. */
  | { tag: "secret"; val: string };

export interface Statement {
  /** One statement that reads or changes rows. Its parameters are `$1`, `$2` and so on, whatever the database. */
  text: string;
  parameters: Parameter[];
  /** How many rows it must change or return; another number rolls the whole batch back. */
  expectRows: number | null;
}

export interface Outcome {
  /** Changed, or returned. */
  rowsAffected: number;
  columns: string[];
  rows: Value[][];
}

export interface Guard {
  /** From 0. */
  statement: number;
  expected: number;
  actual: number;
}

export interface Fault {
  /** From 0. At a commit: as many as there are statements. */
  statement: number;
  message: string;
}

/** Nothing was done, but for `outcome-unknown`. */
export type SqlError =
  /** No grant for this data source, or for a secret. Says which. */
  | { tag: "denied"; val: string }
  /** The namespace has no data source of this name, or it cannot be used as it is set. */
  | { tag: "no-source"; val: string }
  /** A statement that is not taken: it is not one, it would end the transaction, its parameters do not fit. */
  | { tag: "invalid"; val: Fault }
  /** An expected number of rows did not hold. */
  | { tag: "guard-failed"; val: Guard }
  /** A unique key: such a row is there. */
  | { tag: "unique"; val: Fault }
  /** Another constraint. */
  | { tag: "constraint"; val: Fault }
  /** Other transactions were in the way, also after some tries. */
  | { tag: "busy"; val: Fault }
  /** A statement, or the batch, took longer than it may. */
  | { tag: "timeout" }
  /** More rows, bytes or statements than a batch may have. Says which. */
  | { tag: "too-large"; val: string }
  /** The call has used up its host calls. */
  | { tag: "too-many-calls" }
  /** The data source cannot be reached, or cannot work now. */
  | { tag: "unavailable"; val: string }
  /** The connection broke at the commit: the batch may have been carried out. */
  | { tag: "outcome-unknown"; val: string };

/** Runs the statements in order, in one transaction: all of them or none. */
export type Transact = (source: string, statements: Statement[]) => Outcome[];

/** Runs one statement in a transaction that cannot write. */
export type Read = (source: string, statement: Statement) => Outcome;

// interface types

export type TimestampMs = number;

export type DurationMs = number;

export type Json = string;

/** What made a timer fire. */
export type Trigger = "slot" | "near" | "backlog" | "manual";

/** A timer that has come due. */
export interface Expiry {
  timerId: string;
  namespace: string;
  timerType: string;
  /** The business's key, opaque. */
  key: string;
  /** Fits the manifest's `payload_schema`. */
  payload: Json;
  /** From 1. */
  attempt: number;
  trigger: Trigger;
  /** The same over all attempts. */
  idempotencyKey: string;
  dueAt: TimestampMs;
  /** Now, by the store's clock. */
  firedAt: TimestampMs;
  /** The type's configuration; fits the manifest's `config_schema`. */
  config: Json;
}

/** A timer that is not due yet, at one of the manifest's `remind_before`. */
export interface Reminder {
  timerId: string;
  namespace: string;
  timerType: string;
  key: string;
  payload: Json;
  attempt: number;
  idempotencyKey: string;
  dueAt: TimestampMs;
  /** How long before it is due. */
  before: DurationMs;
  now: TimestampMs;
  config: Json;
}

/** A compensation to carry out. It may have been carried out before: send the idempotency key along. */
export interface Compensation {
  id: string;
  timerId: string;
  namespace: string;
  timerType: string;
  /** The timer's key. */
  key: string;
  kind: string;
  /** As the decision gave it. */
  payload: Json;
  /** From 1. */
  attempt: number;
  /** The same over all attempts and redrives. */
  idempotencyKey: string;
  now: TimestampMs;
  config: Json;
}

export interface Decision {
  verdict: Verdict;
  effects: Effects;
}

export type Verdict =
  /** The timer has done its work. The JSON becomes its result. */
  | { tag: "close"; val: Json | null }
  /** Nothing to do: it is settled otherwise. Says why. */
  | { tag: "skip"; val: string }
  | { tag: "retry"; val: Retry };

export interface Retry {
  /** The type's own backoff where it is not said. */
  after: DurationMs | null;
  reason: string;
}

/** What is to happen, as data: written in the decision's own transaction, carried out after it. Only `close` may have compensations and follow-ups. */
export interface Effects {
  /** At most 200. */
  compensations: CompensationSpec[];
  /** At most 16. */
  followUps: FollowUp[];
  /** At most 16. */
  events: Event[];
  /** At most 16. */
  counters: Counter[];
}

/** A call of `compensate` to come. */
export interface CompensationSpec {
  /** `[a-z][a-z0-9_-]{0,62}` */
  kind: string;
  payload: Json;
}

/** Another timer, of a type in the same namespace. */
export interface FollowUp {
  timerType: string;
  /** 1 to 256 bytes without control characters. */
  key: string;
  payload: Json;
  /** The type's default delay where it is not said. */
  due: Due | null;
}

export type Due =
  | { tag: "at"; val: TimestampMs }
  | { tag: "after"; val: DurationMs };

/** Kept in the timer's audit. */
export interface Event {
  /** `[a-z][a-z0-9_-]{0,62}` */
  name: string;
  data: Json;
}

/** A step of a counter of the plugin's own. */
export interface Counter {
  /** `[a-z][a-z0-9_-]{0,62}` */
  name: string;
  value: number;
}

/** What decides what happens next. */
export type FailureClass = "transient" | "conflict" | "downstream" | "permanent";

export interface Failure {
  class: FailureClass;
  /** A short stable word: `[a-z][a-z0-9_-]{0,62}`. */
  code: string;
  /** A sentence for a person. */
  message: string;
  /** No attempt before this has passed. */
  retryAfter: DurationMs | null;
}
