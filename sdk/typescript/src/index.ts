export { type CallOptions } from "./call.js";
export { createClient, type Client, type ClientOptions } from "./client.js";
export { LapseConnectionError, LapseError } from "./error.js";
export { events, type StreamEvent } from "./events.js";
export { type Calls, VERSION } from "./operations.js";
export { type ListParams, type Page, paginate } from "./paginate.js";
export { type RetryOptions } from "./retry.js";
export type * from "./schema.js";
