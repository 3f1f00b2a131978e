/** Runs a plugin's functions in a test, without a component: what it decides, and a host that the test plays. */
import { fake } from "#host";

import { said } from "./duration.ts";
import { failureOf } from "./failure.ts";
import type { Plugin } from "./plugin.ts";

export { fake };

/** A timer that is due; what is left out is made up. */
export interface Given<Payload, Config> {
  payload: Payload;
  config?: Config;
  key?: string;
  attempt?: number;
  /** Milliseconds since 1970. */
  dueAt?: number;
}

/** The same that `lapse plugin check` shows and that samples expect. */
export interface Outcome {
  decision?: Record<string, any>;
  failure?: { class: string; code: string; message: string; retry_after?: string };
}

const BASE = { timerId: "019a0000-0000-7000-8000-000000000000", namespace: "default", timerType: "test" };

/** What the plugin decides. Payload and config pass through JSON, as on a server. */
export function decide<Payload, Config>(plugin: Plugin<Payload, Config>, given: Given<Payload, Config>): Outcome {
  const { payload, config, key = "sample", attempt = 1, dueAt = Date.UTC(2026, 0, 1) } = given;
  const more = { key, attempt, trigger: "slot" as const, idempotencyKey: BASE.timerId, dueAt, firedAt: dueAt };
  return outcome(() => ({
    decision: through(plugin.definition.onExpire({ ...BASE, ...more, ...read(payload, config) })) as {},
  }));
}

/** What one of the plugin's compensations answers, or how it fails. */
export function compensate<Payload, Config>(
  plugin: Plugin<Payload, Config>,
  given: { kind: string; payload: unknown; config?: Config; key?: string; attempt?: number; now?: number },
): { answer?: unknown; failure?: Outcome["failure"] } {
  const { kind, payload, config, key = "sample", attempt = 1, now = Date.UTC(2026, 0, 1) } = given;
  const id = "019a0000-0000-7000-8000-000000000001";
  const carryOut = plugin.definition.compensate?.[kind];
  if (!carryOut) throw new Error(`there is no compensation ${kind}`);
  return outcome(() => ({
    answer: through(carryOut({ ...BASE, id, key, kind, attempt, idempotencyKey: id, now, ...read(payload, config) })),
  }));
}

const through = (value: unknown): unknown => (value === undefined ? null : JSON.parse(JSON.stringify(value)));

function read(payload: unknown, config: unknown): { payload: any; config: any } {
  return { payload: through(payload), config: through(config ?? {}) };
}

function outcome<T>(body: () => T): T | { failure: NonNullable<Outcome["failure"]> } {
  try {
    return body();
  } catch (thrown) {
    const { class: failureClass, code, message, retryAfter } = failureOf(thrown).toWit();
    return {
      failure: { class: failureClass, code, message, ...(retryAfter !== null && { retry_after: said(retryAfter) }) },
    };
  }
}
