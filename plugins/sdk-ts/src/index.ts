/**
 * Write plugins for Lapse in TypeScript.
 *
 * A plugin is a module whose exports come from {@link definePlugin}. It has no clock, no randomness and no network but
 * what comes with a call and what an operator granted: `Date.now()` is the call's time, and the same input gives the
 * same decision.
 */
export { close, retry, skip, type Decision, type FollowUp } from "./decision.ts";
export { ms, type Duration } from "./duration.ts";
export { Failure } from "./failure.ts";
export type { Capability, Manifest, Schema, Wanted } from "./manifest.ts";
export { definePlugin, type Expiry, type Plugin, type PluginDefinition, type Reminder, type Task } from "./plugin.ts";
export type { FailureClass, Trigger } from "./wit.ts";
