/**
 * The pages' code. Each comes when it is first shown, and all of it soon after the start: so a server that goes away, or
 * one of another version with files of other names, takes no page with it.
 */
import { lazyRouteComponent } from "@tanstack/react-router";

/** The code of a page could not be fetched. */
export class NotFetched extends Error {
  constructor(cause: unknown) {
    super("The page could not be fetched from the server.");
    this.name = "NotFetched";
    this.cause = cause;
  }
}

const all: (() => Promise<unknown>)[] = [];

/** The router would answer a file that is missing by loading the address anew, which loses all there is if nobody answers. */
export function page<M extends Record<string, unknown>, Name extends keyof M & string>(load: () => Promise<M>, name: Name) {
  const fetched = () =>
    load().catch((cause: unknown) => {
      throw new NotFetched(cause);
    });
  all.push(fetched);
  return lazyRouteComponent(fetched as never, name as never);
}

/** When the first page has what it needs. */
const REST_AFTER_MS = 1_500;

/** One after the other, since connections are few. What fails is fetched when it is wanted. */
export function fetchRest(): void {
  setTimeout(() => {
    void (async () => {
      for (const fetched of all) await fetched().catch(() => undefined);
    })();
  }, REST_AFTER_MS);
}
