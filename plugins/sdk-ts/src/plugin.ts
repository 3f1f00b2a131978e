import type * as wit from "./wit.ts";

import type { Decision } from "./decision.ts";
import { Failure, failureOf } from "./failure.ts";
import { json } from "./json.ts";
import { manifestJson, type Manifest } from "./manifest.ts";

type Read<T, Payload, Config> = Omit<T, "payload" | "config"> & { payload: Payload; config: Config };

/** A timer that is due. */
export type Expiry<Payload = unknown, Config = unknown> = Read<wit.Expiry, Payload, Config>;
/** A timer that is not due yet, at one of the manifest's `remindBefore`. */
export type Reminder<Payload = unknown, Config = unknown> = Read<wit.Reminder, Payload, Config>;
/** A compensation to carry out. It may have been carried out before: send the idempotency key along. */
export type Task<Config = unknown> = Read<wit.Compensation, any, Config>;

/** A timer type's logic. Each call has an instance of its own: nothing is kept from one to the next. */
export interface PluginDefinition<Payload, Config> {
  manifest: Manifest;
  /** Decides what becomes of a timer that is due. */
  onExpire(ctx: Expiry<Payload, Config>): Decision;
  /** A reminder before the due time. What it answers is kept in the audit. */
  onRemind?(ctx: Reminder<Payload, Config>): unknown;
  /** Carries compensations out, by their kinds. What one answers is kept in the audit. */
  compensate?: Record<string, (task: Task<Config>) => unknown>;
}

/** What a plugin's module exports. */
export interface Plugin<Payload, Config> {
  describe(): string;
  onExpire(ctx: wit.Expiry): wit.Decision;
  onRemind(ctx: wit.Reminder): string | null;
  compensate(task: wit.Compensation): string | null;
  /** For tests. */
  definition: PluginDefinition<Payload, Config>;
}

function read<T extends { payload: string; config: string }>(given: T): Read<T, any, any> {
  return { ...given, payload: JSON.parse(given.payload), config: JSON.parse(given.config) };
}

/** Failures leave as what the interface has for them. */
function guarded<T>(body: () => T): T {
  try {
    return body();
  } catch (thrown) {
    throw failureOf(thrown).toWit();
  }
}

function answer(value: unknown): string | null {
  return value === undefined || value === null ? null : json(value);
}

/** Makes a component's exports of a plugin: `export const { describe, onExpire, onRemind, compensate } = plugin`. */
export function definePlugin<Payload, Config = Record<string, never>>(
  definition: PluginDefinition<Payload, Config>,
): Plugin<Payload, Config> {
  return {
    definition,
    describe: () => manifestJson(definition.manifest),
    onExpire: (ctx) => guarded(() => definition.onExpire(read(ctx)).toWit()),
    onRemind: (ctx) => guarded(() => answer(definition.onRemind?.(read(ctx)))),
    compensate: (task) =>
      guarded(() => {
        const carryOut = Object.entries(definition.compensate ?? {}).find(([kind]) => kind === task.kind)?.[1];
        if (!carryOut) {
          throw Failure.permanent("unknown_kind", `there is no compensation of kind ${JSON.stringify(task.kind)}`);
        }
        return answer(carryOut(read(task)));
      }),
  };
}
