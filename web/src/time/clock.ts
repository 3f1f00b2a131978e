/**
 * The server's clock as seen from here, and the one ticker that every countdown shares.
 *
 * An answer's `now` reaches us late by its way, never early, so the largest difference of the last few is the best guess.
 */
import { useSyncExternalStore } from "react";

const SAMPLES = 16;
/** Above this the reader is told that the two clocks differ. */
export const TELLING_MS = 2000;

let samples: number[] = [];
let offset = 0;
const offsetListeners = new Set<() => void>();

export function observe(serverNow: string | undefined, receivedMs = Date.now()): void {
  const at = serverNow === undefined ? NaN : Date.parse(serverNow);
  if (Number.isNaN(at)) return;
  const sample = at - receivedMs;
  // A jump of either clock makes all earlier samples worthless.
  if (samples.length > 0 && Math.abs(sample - offset) > 60_000) samples = [];
  samples = [...samples, sample].slice(-SAMPLES);
  const next = Math.max(...samples);
  if (Math.abs(next - offset) < 20) return;
  offset = next;
  for (const listener of offsetListeners) listener();
}

export function offsetMs(): number {
  return offset;
}

/** The server's now, for countdowns and ages only. */
export function serverNow(): number {
  return Date.now() + offset;
}

export function resetForTest(): void {
  samples = [];
  offset = 0;
}

// The functions given to React stand still: a new one on each render would be subscribed anew on each render.
function subscribeOffset(listener: () => void): () => void {
  offsetListeners.add(listener);
  return () => offsetListeners.delete(listener);
}

export function useOffset(): number {
  return useSyncExternalStore(subscribeOffset, offsetMs);
}

let tick = serverNow();
let timer: ReturnType<typeof setInterval> | undefined;
const tickListeners = new Set<() => void>();

function beat(): void {
  tick = serverNow();
  for (const listener of tickListeners) listener();
}

function subscribeTick(listener: () => void): () => void {
  tickListeners.add(listener);
  if (timer === undefined) {
    tick = serverNow();
    timer = setInterval(beat, 1000);
  }
  return () => {
    tickListeners.delete(listener);
    if (tickListeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

const latestTick = () => tick;

/** The server's now, renewed once a second for everyone at once. */
export function useNow(): number {
  return useSyncExternalStore(subscribeTick, latestTick);
}
