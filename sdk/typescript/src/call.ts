/** What a call takes and gives: worked out from the document's types, so that nothing here repeats them. */
import type { operations } from "./schema.js";

/** What the client has to know of an operation to call it. */
export interface Operation {
  readonly method: string;
  readonly path: string;
  /** Whether there is anything in the path or the query. */
  readonly params: boolean;
  readonly body: "none" | "json" | "bytes";
  readonly answer: "none" | "json" | "text" | "stream";
  /** Whether sending it again does no harm. */
  readonly idempotent: boolean;
}

export interface CallOptions {
  /** Another namespace than the client's; only an admin's key may name one. */
  namespace?: string;
  /** The caller's own id for the message; a timer's event keeps it as `message_id`. */
  idempotencyKey?: string;
  /** Act only if the timer still has this version; otherwise `version_conflict` (412). */
  ifVersion?: number;
  /** Gives up on the call. */
  signal?: AbortSignal;
  /** How long one attempt may take, in milliseconds. */
  timeoutMs?: number;
}

type Id = keyof operations;
type Nothing = Record<never, never>;
/** A group of parameters, or nothing where the operation has none. */
type Group<P, Name> = Name extends keyof P ? ([NonNullable<P[Name]>] extends [never] ? Nothing : NonNullable<P[Name]>) : Nothing;
type Flat<T> = { [Name in keyof T]: T[Name] };
type Params<O> = O extends { parameters: infer P } ? Flat<Group<P, "path"> & Group<P, "query">> : Nothing;

type Content<B> = B extends { content: infer C }
  ? "application/octet-stream" extends keyof C
    ? Uint8Array | ArrayBuffer | Blob
    : C[keyof C]
  : never;
type Body<O> = O extends { requestBody: infer B } ? Content<B> : O extends { requestBody?: infer B } ? Content<NonNullable<B>> : never;
type HasOptionalBody<O> = O extends { requestBody: unknown } ? false : true;

type Success<R> = R[Extract<keyof R, 200 | 201 | 202 | 204>];
type Answer<O> = O extends { responses: infer R }
  ? Success<R> extends { content: infer C }
    ? "text/event-stream" extends keyof C
      ? Response
      : C[keyof C]
    : undefined
  : never;

type ParamsArgument<O> = keyof Params<O> extends never
  ? []
  : Nothing extends Params<O>
    ? [params?: Params<O>]
    : [params: Params<O>];
type BodyArgument<O> = [Body<O>] extends [never] ? [] : HasOptionalBody<O> extends true ? [body?: Body<O>] : [body: Body<O>];

/** One method of the client: what stands in the path and the query, then the body, then options. */
export type Call<I extends Id> = (
  ...args: [...ParamsArgument<operations[I]>, ...BodyArgument<operations[I]>, options?: CallOptions]
) => Promise<Answer<operations[I]>>;
