import { said, type Duration } from "./duration.ts";

/** JSON Schema (2020-12). */
export type Schema = boolean | { readonly [keyword: string]: unknown };

export type Capability = "http" | "sql" | "secret";

export interface Wanted {
  /** Without a grant of each of these for the export, a type of this plugin is refused. */
  required?: Capability[];
  /** Used if granted. */
  optional?: Capability[];
}

/** Who a plugin is and what it wants. */
export interface Manifest {
  name: string;
  /** Semantic, for people. */
  version: string;
  /** Of a timer's payload; any fits if it is left out. */
  payloadSchema?: Schema;
  /** Of the type's configuration; without one there is none to set. */
  configSchema?: Schema;
  /** For timers that say neither when they are due nor after how long. */
  defaultDelay?: Duration;
  /** How often an expiry is tried, and how long it waits in between. */
  retry?: {
    /** In all, the first included. */
    attempts: number;
    /** The longest wait before the second attempt; doubled for each one after. */
    initial: Duration;
    max: Duration;
  };
  /** Before the due time: `onRemind` is called at each. */
  remindBefore?: Duration[];
  /** What each export wants. */
  exports?: { onExpire?: Wanted; onRemind?: Wanted; compensate?: Wanted };
}

const text = (duration: Duration) => (typeof duration === "number" ? said(duration) : duration);

/** As `describe` gives it. */
export function manifestJson(manifest: Manifest): string {
  const { name, version, payloadSchema, configSchema, defaultDelay, retry, remindBefore, exports } = manifest;
  const { onExpire, onRemind, compensate } = exports ?? {};
  return JSON.stringify({
    name,
    version,
    abi: "lapse:plugin@1.0.0",
    payload_schema: payloadSchema ?? true,
    ...(configSchema !== undefined && { config_schema: configSchema }),
    ...(defaultDelay !== undefined && { default_delay: text(defaultDelay) }),
    ...(retry && { retry: { attempts: retry.attempts, initial: text(retry.initial), max: text(retry.max) } }),
    ...(remindBefore && { remind_before: remindBefore.map(text) }),
    exports: {
      ...(onExpire && { "on-expire": onExpire }),
      ...(onRemind && { "on-remind": onRemind }),
      ...(compensate && { compensate }),
    },
  });
}
