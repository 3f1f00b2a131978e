/** Whether the server answers: what the banner shows and what every action waits for. */
import { value } from "./store";

export type Health = { away: boolean; lastAnswerMs?: number };

export const health = value<Health>({ away: false });

/** No more often than this: it renders. */
const STEP_MS = 1000;

export function answered(): void {
  const now = Date.now();
  const before = health.get();
  if (!before.away && before.lastAnswerMs !== undefined && now - before.lastAnswerMs < STEP_MS) return;
  health.set({ away: false, lastAnswerMs: now });
}

export function unanswered(): void {
  const before = health.get();
  if (!before.away) health.set({ ...before, away: true });
}
