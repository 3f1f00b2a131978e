/** The smallest observable value; React reads it with `useValue`. */
import { useSyncExternalStore } from "react";

export type Value<T> = { get(): T; set(next: T): void; subscribe(listener: () => void): () => void };

export function value<T>(initial: T): Value<T> {
  let current = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => current,
    set(next) {
      if (Object.is(next, current)) return;
      current = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useValue<T>(v: Value<T>): T {
  return useSyncExternalStore(v.subscribe, v.get);
}
