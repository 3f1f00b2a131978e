/** The API's shapes as the console names them. */
import type { Json } from "./lossless";

export const STATES = ["scheduled", "firing", "closed", "skipped", "resolved", "cancelled", "failed"] as const;
export type State = (typeof STATES)[number];

export type TimerSummary = {
  id: string;
  type: string;
  key: string;
  state: State;
  due_at: string;
  run_at?: string;
  expired?: boolean;
  attempt: number;
  version: number;
  revision?: number;
  created_at?: string;
  settled_at?: string;
};

export type Timer = TimerSummary & {
  namespace?: string;
  payload?: Json;
  labels?: Record<string, string>;
  outcome?: Json;
};

export type TimerEvent = {
  seq: number;
  at: string;
  kind: string;
  actor: string;
  state_before?: State;
  state_after?: State;
  version: number;
  attempt: number;
  trigger?: string;
  digest?: string;
  message_id?: string;
  detail?: Json;
};

export type Page<T> = { items: T[]; next_cursor?: string };

export type Failure = { class: string; code?: string; message?: string; retry_after?: string };
export type CompensationState = "pending" | "running" | "done" | "dead";

export type Compensation = {
  id: string;
  timer_id: string;
  type?: string;
  timer_key?: string;
  kind: string;
  payload?: Json;
  state: CompensationState;
  attempt: number;
  revision?: number;
  run_at?: string;
  host?: string;
  last_error?: Failure;
  result?: Json;
  created_at?: string;
  settled_at?: string;
};

export type Capped = { count: number; capped?: boolean };

export type Rates = Partial<Record<RateName, number>>;
export type RateName = "registered" | "closed" | "skipped" | "failed" | "resolved" | "cancelled" | "retried";

export type Breaker = { type: string; kind?: string; host?: string; state: string; opened_at?: string; until?: string };

export type TypeStats = {
  type: string;
  paused?: boolean;
  revision?: number;
  fired?: number;
  lateness_p50_ms?: number;
  lateness_p99_ms?: number;
  failed_1h?: Capped;
  dead?: Capped;
};

export type HistoryPoint = { at: string; lateness_p50_ms?: number; lateness_p99_ms?: number } & Rates;

export type Stats = {
  now: string;
  since?: string;
  window_ms?: number;
  rates?: Rates;
  overdue?: Capped;
  oldest_overdue?: { id: string; type: string; key: string; due_at: string; state?: State };
  scheduled?: Capped;
  failed?: Capped;
  compensations?: { dead?: Capped; pending?: Capped; oldest_dead_at?: string };
  breakers?: Breaker[];
  broker?: { state: string; since?: string };
  types?: TypeStats[];
  history?: HistoryPoint[];
  history_step_ms?: number;
};

export type Forecast = {
  now: string;
  from: string;
  until: string;
  step_ms: number;
  cap?: number;
  partial?: boolean;
  counted_until?: string;
  series: { type: string; counts: number[] }[];
};

export type CheckStatus = "pass" | "blocking" | "unknown";
export type Check = {
  code: string;
  status: CheckStatus;
  sentence: string;
  since?: string;
  until?: string;
  evidence?: { [name: string]: Json };
  fix?: { action: string; sentence: string };
};
export type Explanation = {
  now: string;
  timer_id: string;
  version?: number;
  state: State;
  code: string;
  sentence: string;
  checks: Check[];
};

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

export type Plugin = {
  digest: string;
  size: number;
  manifest: Manifest;
  imports?: string[];
  compile_ms?: number;
  created_at?: string;
  created_by?: string;
};

export type RetryPolicy = { attempts: number; initial: string; max: string };

type RevisionContent = {
  digest: string;
  config?: Json;
  grants?: string[];
  default_delay?: string;
  retry?: RetryPolicy;
  concurrency?: number;
  rate?: number;
  pure?: boolean;
  created_at?: string;
};

export type TimerType = RevisionContent & {
  namespace?: string;
  name: string;
  /** The active one. */
  revision: number;
  plugin?: { name: string; version: string };
  payload_schema?: Json;
  paused?: boolean;
  updated_at?: string;
};

export type Revision = RevisionContent & { number: number; active?: boolean; created_by?: string };

export type DryRun = {
  decision?: Json;
  failure?: Failure;
  digest?: string;
  logs?: { level: string; message: string }[];
  denied?: string[];
  cpu_us?: number;
  memory_bytes?: number;
};

export const ROLES = ["reader", "producer", "publisher", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];
export type Self = { key_name?: string; role: Role; namespace?: string; version?: string; node_id?: string; now?: string };
