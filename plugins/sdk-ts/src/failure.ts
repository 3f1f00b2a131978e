import type { Failure as WitFailure, FailureClass } from "./wit.ts";

import { ms, type Duration } from "./duration.ts";

/** Why a plugin could not do what it was asked. Throw it; its class decides what happens next. */
export class Failure extends Error {
  override readonly name = "Failure";
  #retryAfter: number | null = null;

  /** `code` is a short stable word such as `shop_away`, `message` a sentence for a person. */
  constructor(
    readonly failureClass: FailureClass,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }

  /** A passing fault: tried again soon. */
  static transient(code: string, message: string): Failure {
    return new Failure("transient", code, message);
  }

  /** The business says otherwise: skipped, and recorded. */
  static conflict(code: string, message: string): Failure {
    return new Failure("conflict", code, message);
  }

  /** A service that is called is away: tried again with longer waits. */
  static downstream(code: string, message: string): Failure {
    return new Failure("downstream", code, message);
  }

  /** It will not get better by itself: failed, for a person to see. */
  static permanent(code: string, message: string): Failure {
    return new Failure("permanent", code, message);
  }

  /** No attempt before this has passed. */
  retryAfter(after: Duration | null): this {
    this.#retryAfter = after === null ? null : ms(after);
    return this;
  }

  /** As the interface has it. */
  toWit(): WitFailure {
    return { class: this.failureClass, code: this.code, message: this.message, retryAfter: this.#retryAfter };
  }
}

/** What was thrown, as a failure. An exception that nobody meant would happen again: it is permanent. */
export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  const said = thrown instanceof Error ? `${thrown.name}: ${thrown.message}\n${thrown.stack ?? ""}` : String(thrown);
  return Failure.permanent("exception", said.trim());
}
