/**
 * Which windows of one browser read the stream. Over HTTP/1.1 a browser keeps six connections to a server, for all of its
 * windows together, and a stream holds one for good: a seventh window that shows would never load. So the windows note in
 * local storage when each was used last, and only the first few by that have a place; the others renew their figures by
 * asking. Hidden windows are not in the list at all.
 */

/** Streams of one browser at once; the other connections are for calls. */
export const PLACES = 4;
const KEY = "lapse.windows";
/** How often a window says that it is still there. */
const BEAT_MS = 2_000;
/** A window that has not said so for this long is gone, or asleep. */
const GONE_MS = 10_000;

export type Windows = Record<string, { used: number; beat: number }>;

/** Whether this window is among the first: those used last, and of two used at once either, but the same one for both. */
export function hasPlace(windows: Windows, own: string): boolean {
  const order = Object.entries(windows).sort(([a, x], [b, y]) => y.used - x.used || (a < b ? -1 : 1));
  const at = order.findIndex(([id]) => id === own);
  return at >= 0 && at < PLACES;
}

/** Those that are still there. What is not understood is not there. */
export function alive(stored: string | null, now: number): Windows {
  let all: unknown;
  try {
    all = JSON.parse(stored ?? "{}");
  } catch {
    return {};
  }
  if (typeof all !== "object" || all === null) return {};
  const kept = Object.entries(all as Windows).filter(([, w]) => typeof w?.used === "number" && Math.abs(now - w.beat) < GONE_MS);
  return Object.fromEntries(kept);
}

// Not `crypto.randomUUID`, which is there only over TLS.
const own = Math.random().toString(36).slice(2);

/** Enlists this window, and tells whether it has a place: at once, and whenever that changes, until it is taken back. */
export function enlist(tell: (has: boolean) => void): () => void {
  let used = Date.now();
  let told: boolean | undefined;
  const look = (write: boolean) => {
    const now = Date.now();
    let has = true;
    try {
      const windows = alive(localStorage.getItem(KEY), now);
      // Two that write at the same moment lose one of them, until its next beat.
      if (write || !windows[own]) {
        windows[own] = { used, beat: now };
        localStorage.setItem(KEY, JSON.stringify(windows));
      }
      has = hasPlace(windows, own);
    } catch {
      // Without storage no window knows of another.
    }
    if (has !== told) {
      told = has;
      tell(has);
    }
  };
  const onFocus = () => {
    used = Date.now();
    look(true);
  };
  const onStorage = (event: StorageEvent) => {
    if (event.key === KEY || event.key === null) look(false);
  };
  // A page that the browser keeps, and shows again, is back with its next beat.
  const giveUp = () => {
    try {
      const windows = alive(localStorage.getItem(KEY), Date.now());
      delete windows[own];
      localStorage.setItem(KEY, JSON.stringify(windows));
    } catch {
      // Nothing was stored.
    }
  };
  const beat = setInterval(() => look(true), BEAT_MS);
  window.addEventListener("focus", onFocus);
  window.addEventListener("storage", onStorage);
  window.addEventListener("pagehide", giveUp);
  look(true);
  return () => {
    clearInterval(beat);
    window.removeEventListener("focus", onFocus);
    window.removeEventListener("storage", onStorage);
    window.removeEventListener("pagehide", giveUp);
    giveUp();
  };
}
