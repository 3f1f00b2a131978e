/** An RFC 9457 problem as an error, and what else can go wrong with a call. */
import type { Timer } from "./model";

export type Fault = { pointer?: string; code?: string; detail?: string };

export type ProblemBody = {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  code?: string;
  request_id?: string;
  errors?: Fault[];
  timer?: Timer;
};

export class Problem extends Error {
  readonly status: number;
  readonly body: ProblemBody;
  readonly retryAfterS?: number;

  constructor(status: number, body: ProblemBody, retryAfterS?: number) {
    super(body.detail ?? body.title ?? `HTTP ${status}`);
    this.name = "Problem";
    this.status = status;
    this.body = body;
    this.retryAfterS = retryAfterS;
  }

  get code(): string | undefined {
    return this.body.code;
  }
}

/** The server could not be reached at all. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("The server did not answer.");
    this.name = "Unreachable";
    this.cause = cause;
  }
}

export function isStatus(error: unknown, ...statuses: number[]): error is Problem {
  return error instanceof Problem && statuses.includes(error.status);
}

export function isCode(error: unknown, ...codes: string[]): error is Problem {
  return error instanceof Problem && error.code !== undefined && codes.includes(error.code);
}
