/** The server's figures, as told or as asked for, whichever are newer: a stream that has ended goes on showing nothing old. */
import { latestStats } from "./live";
import type { Stats } from "./model";
import { useStats } from "./queries";
import { useValue } from "./store";

export function useFigures(): { stats: Stats | undefined; read: ReturnType<typeof useStats> } {
  const told = useValue(latestStats);
  const read = useStats();
  return { stats: newest(told, read.data), read };
}

export function newest(a: Stats | undefined, b: Stats | undefined): Stats | undefined {
  if (!a || !b) return a ?? b;
  return Date.parse(a.now) >= Date.parse(b.now) ? a : b;
}
