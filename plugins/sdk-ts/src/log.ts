/** Lines that are kept with the call, bounded in number and length. */
import { count as step, write } from "#host";

export const debug = (message: string): void => write("debug", message);
export const info = (message: string): void => write("info", message);
export const warn = (message: string): void => write("warn", message);
export const error = (message: string): void => write("error", message);

/**
 * A step of a counter of the plugin's own that counts also if the call fails. With a decision, `Decision.count` is the
 * better place.
 */
export const count = (name: string, by = 1): void => step(name, by);
