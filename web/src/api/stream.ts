/** Reads one server-sent event stream by fetch, since EventSource cannot send a header. */
import { createParser } from "eventsource-parser";

import { parse, type Json } from "./lossless";
import { address, headers, problemOf, type Query } from "./http";

/** A stream that says nothing for so long is dead, whatever the connection thinks. */
export const SILENCE_MS = 25_000;

export type StreamEvent = { event: string; data: Json };

export async function readStream(
  path: string,
  query: Query,
  signal: AbortSignal,
  onOpen: () => void,
  onEvent: (event: StreamEvent) => void,
): Promise<void> {
  const quiet = new AbortController();
  const all = headers({});
  all.set("accept", "text/event-stream");
  let watchdog = setTimeout(() => quiet.abort(), SILENCE_MS);
  try {
    const response = await fetch(address(path, query), {
      headers: all,
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.any([signal, quiet.signal]),
    });
    if (!response.ok || !response.body) throw problemOf(response, await response.text());
    onOpen();
    const parser = createParser({
      onEvent: (message) => onEvent({ event: message.event ?? "message", data: parse(message.data) }),
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => quiet.abort(), SILENCE_MS);
      parser.feed(value);
    }
  } finally {
    clearTimeout(watchdog);
  }
}
