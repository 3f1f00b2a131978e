/** Waits between attempts to reach a server that is away: doubling to a cap, with full jitter above a floor. */
export const FLOOR_MS = 500;
export const CAP_MS = 30_000;

export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const ceiling = Math.min(CAP_MS, FLOOR_MS * 2 ** Math.min(attempt, 16));
  return FLOOR_MS + random() * (ceiling - FLOOR_MS);
}
