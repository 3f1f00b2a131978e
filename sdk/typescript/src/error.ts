import { parse } from "./json.js";
import type { Code, Fault, Problem, Timer } from "./schema.js";

/** The server refused the call, or could not answer it: an RFC 9457 problem. */
export class LapseError extends Error {
  override readonly name = "LapseError";
  /** The HTTP status. */
  readonly status: number;
  /** What went wrong, for programs; `undefined` if what answered was not Lapse, such as a proxy in front of it. */
  readonly code: Code | undefined;
  /** Each fault by itself, with its place; empty where there is only one. */
  readonly errors: readonly Fault[];
  /** The timer as it is, where the call was about one. */
  readonly timer: Timer | undefined;
  readonly requestId: string | undefined;
  /** How long the server asks to wait before the next call, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  /** The whole problem, as the server sent it. */
  readonly problem: Problem | undefined;

  constructor(response: Response, problem: Problem | undefined, retryAfterMs: number | undefined) {
    super(problem ? `${problem.code}: ${problem.detail}` : `the server answered HTTP ${response.status}`);
    this.status = response.status;
    this.code = problem?.code;
    this.errors = problem?.errors ?? [];
    this.timer = problem?.timer;
    this.requestId = problem?.request_id ?? response.headers.get("x-request-id") ?? undefined;
    this.retryAfterMs = retryAfterMs;
    this.problem = problem;
  }
}

/** No answer came: the server could not be reached, went away, or took too long. What became of the call is not known. */
export class LapseConnectionError extends Error {
  override readonly name = "LapseConnectionError";
}

export async function errorOf(response: Response, retryAfterMs: number | undefined): Promise<LapseError> {
  const text = await response.text().catch(() => "");
  return new LapseError(response, problemOf(response, text), retryAfterMs);
}

function problemOf(response: Response, text: string): Problem | undefined {
  if (!response.headers.get("content-type")?.startsWith("application/problem+json")) return undefined;
  try {
    return parse(text) as Problem;
  } catch {
    return undefined;
  }
}
