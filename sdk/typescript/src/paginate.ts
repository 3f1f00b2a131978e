import type { CallOptions } from "./call.js";

export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

export interface ListParams {
  cursor?: string;
  limit?: number;
}

/**
 * Everything that a list has, page after page, as it is asked for: `for await (const timer of paginate(lapse.listTimers,
 * { state: ["failed"] }))`. Stop when you have enough; a large list is never read as a whole.
 */
export async function* paginate<T, P extends ListParams | undefined>(
  list: (params: P, options?: CallOptions) => Promise<Page<T>>,
  params: NonNullable<P>,
  options?: CallOptions,
): AsyncGenerator<T, void, undefined> {
  let cursor = params.cursor;
  do {
    const page: Page<T> = await list(cursor === undefined ? params : { ...params, cursor }, options);
    yield* page.items;
    cursor = page.next_cursor;
  } while (cursor !== undefined);
}
