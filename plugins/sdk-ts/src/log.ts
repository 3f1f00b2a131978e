/** Lines that are kept with the call, bounded in number and length. */
import { write } from "#host";

export const debug = (message: string): void => write("debug", message);
export const info = (message: string): void => write("info", message);
export const warn = (message: string): void => write("warn", message);
export const error = (message: string): void => write("error", message);
