/** Which action a timer's state allows. The server decides; this only keeps false hopes off the screen. */
import type { State } from "../api/model";

export const TIMER_ACTIONS = ["resolve", "cancel", "reschedule", "fire", "retry"] as const;
export type TimerAction = (typeof TIMER_ACTIONS)[number];

const FROM: Record<TimerAction, readonly State[]> = {
  // While firing the server waits for the outcome and then answers; so it may be asked.
  resolve: ["scheduled", "firing", "failed"],
  cancel: ["scheduled", "firing", "failed"],
  reschedule: ["scheduled"],
  fire: ["scheduled"],
  retry: ["failed"],
};

export function allowed(action: TimerAction, state: State): boolean {
  return FROM[action].includes(state);
}

export function isFinal(state: State): boolean {
  return state === "closed" || state === "skipped" || state === "resolved" || state === "cancelled";
}
