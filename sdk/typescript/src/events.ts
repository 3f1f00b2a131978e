/** Server-sent events, read from the answer of `streamEvents`: `EventSource` cannot send a key. */
import { LapseConnectionError } from "./error.js";
import { parse } from "./json.js";

export interface StreamEvent {
  /** What it tells of: `hello`, `stats`, `timers`, `compensations`, `types`, `missed`. There may be more one day. */
  event: string;
  /** Its JSON; the document says at `stream_events` what each holds. */
  data: unknown;
}

/** The longest event that is taken, in characters. */
const MAX_EVENT = 16 * 2 ** 20;

/**
 * What a stream tells, as it comes: `for await (const { event, data } of events(await lapse.streamEvents()))`. It ends when
 * the server ends it, and throws a `LapseConnectionError` when it breaks off. Leaving the loop closes it.
 */
export async function* events(response: Response): AsyncGenerator<StreamEvent, void, undefined> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw new LapseConnectionError("the stream broke off", { cause });
      });
      if (done) return;
      // A return that ends the text may be half of a line's end.
      text = (text + decoder.decode(value, { stream: true })).replace(/\r\n|\r(?!$)/g, "\n");
      let end: number;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const event = eventOf(text.slice(0, end));
        text = text.slice(end + 2);
        if (event) yield event;
      }
      if (text.length > MAX_EVENT) throw new LapseConnectionError(`an event of the stream is longer than ${MAX_EVENT} characters`);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** One without data, such as a comment that keeps the connection open, is none. */
function eventOf(block: string): StreamEvent | undefined {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === "event") event = value ?? "";
    else if (name === "data") data.push(value ?? "");
  }
  return data.length > 0 ? { event, data: parse(data.join("\n")) } : undefined;
}
