/**
 * The API's shapes as the console names them: those of the document, which `npm run types` makes `schema.d.ts` from. What
 * drifts from the document does not compile.
 */
import type { Json } from "./lossless";
import type { components } from "./schema";

type Schemas = components["schemas"];

/** JSON of the business's own is read without loss. */
type Loose<T, Names extends keyof T> = Omit<T, Names> & { [Name in Names]?: Json };

export type State = Schemas["TimerState"];
/** Each state once; a new one of the document's is missed here by the compiler. */
const EVERY_STATE: Record<State, true> = { scheduled: true, firing: true, closed: true, skipped: true, resolved: true, cancelled: true, failed: true };
export const STATES = Object.keys(EVERY_STATE) as State[];

export type Timer = Loose<Schemas["Timer"], "payload" | "outcome">;
/** What a list and the stream hold of a timer: never its payload, which may be 64 KiB. */
export type TimerSummary = Omit<Schemas["Timer"], "payload" | "labels" | "outcome" | "namespace">;

export type TimerEvent = Loose<Schemas["Event"], "detail">;

export type Page<T> = { items: T[]; next_cursor?: string };

export type Failure = Schemas["Failure"];
export type CompensationState = Schemas["CompensationState"];
export type Compensation = Loose<Schemas["Compensation"], "payload" | "result">;

export type RedriveResult = Schemas["RedriveResult"];

export type Capped = Schemas["Capped"];
export type Rates = Schemas["Rates"];
export type RateName = keyof Rates;
export type Breaker = Schemas["BreakerStats"];
export type TypeStats = Schemas["TypeStats"];
export type HistoryPoint = Schemas["HistoryPoint"];
export type Stats = Schemas["Stats"];
export type Forecast = Schemas["Forecast"];

export type Check = Omit<Schemas["Check"], "evidence"> & { evidence?: { [name: string]: Json } };
export type Explanation = Omit<Schemas["Explanation"], "checks"> & { checks: Check[] };

/** What a component says of itself: the document leaves it open, since the ABI defines it. */
export type Manifest = {
  name: string;
  version: string;
  abi: string;
  payload_schema: Json;
  default_delay?: string;
  retry?: Json;
  remind_before?: string[];
  config_schema?: Json;
  exports?: Record<string, { required?: string[]; optional?: string[] }>;
};
export type Plugin = Omit<Schemas["Plugin"], "manifest"> & { manifest: Manifest };
export type RetryPolicy = Schemas["RetryPolicy"];
export type Pause = Schemas["Pause"];
export type TimerType = Loose<Schemas["Type"], "config" | "payload_schema">;
export type Revision = Loose<Schemas["Revision"], "config">;
export type DryRun = Schemas["DryRun"];

export type Role = Schemas["Role"];
export const ROLES = ["reader", "producer", "publisher", "operator", "admin"] as const satisfies readonly Role[];
export type Self = Schemas["CallerSelf"];
