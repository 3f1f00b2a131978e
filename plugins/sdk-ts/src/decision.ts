import type * as wit from "./wit.ts";

import { ms, said, type Duration } from "./duration.ts";
import { json } from "./json.ts";

/** Another timer, of a type in the same namespace. */
export interface FollowUp {
  type: string;
  /** Unique with the type for the life of the timer. */
  key: string;
  payload: unknown;
  /** Milliseconds since 1970. */
  dueAt?: number | undefined;
  /** After the decision. Without this and `dueAt`, the type's default delay. */
  after?: Duration | undefined;
}

/**
 * What becomes of a timer. Nothing happens by returning it: Lapse writes the state and all effects in one transaction,
 * and carries the effects out after it.
 */
export class Decision {
  readonly #verdict: wit.Verdict;
  readonly #effects: wit.Effects = { compensations: [], followUps: [], events: [], counters: [] };

  constructor(verdict: wit.Verdict) {
    this.#verdict = verdict;
  }

  /** A call of `compensate` to come. Only with `close`. */
  compensate(kind: string, payload: unknown): this {
    this.#effects.compensations.push({ kind, payload: json(payload) });
    return this;
  }

  /** Another timer. Only with `close`. */
  followUp({ type, key, payload, dueAt, after }: FollowUp): this {
    let due: wit.Due | null = null;
    if (dueAt !== undefined) due = { tag: "at", val: dueAt };
    else if (after !== undefined) due = { tag: "after", val: ms(after) };
    this.#effects.followUps.push({ timerType: type, key, payload: json(payload), due });
    return this;
  }

  /** Something for the timer's audit. */
  event(name: string, data: unknown): this {
    this.#effects.events.push({ name, data: json(data) });
    return this;
  }

  /** A step of a counter of the plugin's own. */
  count(name: string, value = 1): this {
    this.#effects.counters.push({ name, value });
    return this;
  }

  /** As the interface has it. */
  toWit(): wit.Decision {
    return { verdict: this.#verdict, effects: this.#effects };
  }

  /** As the API, `lapse plugin check` and its samples say it. */
  toJSON(): Record<string, unknown> {
    const { compensations, followUps, events, counters } = this.#effects;
    return {
      ...shown(this.#verdict),
      compensations: compensations.map(({ kind, payload }) => ({ kind, payload: JSON.parse(payload) })),
      follow_ups: followUps.map(({ timerType, key, payload, due }) => ({
        type: timerType,
        key,
        payload: JSON.parse(payload),
        ...(due?.tag === "at" && { due_at: new Date(due.val).toISOString() }),
        ...(due?.tag === "after" && { delay: said(due.val) }),
      })),
      events: events.map(({ name, data }) => ({ name, data: JSON.parse(data) })),
      counters,
    };
  }
}

function shown(verdict: wit.Verdict): Record<string, unknown> {
  switch (verdict.tag) {
    case "close":
      return { outcome: "close", ...(verdict.val !== null && { result: JSON.parse(verdict.val) }) };
    case "skip":
      return { outcome: "skip", reason: verdict.val };
    case "retry": {
      const { after, reason } = verdict.val;
      return { outcome: "retry", reason, ...(after !== null && { after: said(after) }) };
    }
  }
}

/** The timer has done its work. The result stands in the timer's outcome. */
export function close(result?: unknown): Decision {
  return new Decision({ tag: "close", val: result === undefined ? null : json(result) });
}

/** It is settled otherwise. */
export function skip(reason: string): Decision {
  return new Decision({ tag: "skip", val: reason });
}

/** Ask again: after this, or the type's own backoff. */
export function retry(reason: string, after?: Duration): Decision {
  return new Decision({ tag: "retry", val: { reason, after: after === undefined ? null : ms(after) } });
}
