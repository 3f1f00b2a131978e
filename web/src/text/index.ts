/** The one catalogue of what the console says. */
export { actions } from "./actions";
export { common, problems } from "./common";
export { overview } from "./overview";
export { shell } from "./shell";
export { attempt, meanings, states } from "./states";
export { register, timer, timers } from "./timers";
export { compensations, dryRun, types, upload } from "./types";
