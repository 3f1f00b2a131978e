declare module "lapse:plugin/http@1.0.0" {
  export const send: import("../wit.ts").Send;
  export const sendWithSecrets: import("../wit.ts").SendWithSecrets;
}
declare module "lapse:plugin/log@1.0.0" {
  export const write: import("../wit.ts").Write;
  export const count: import("../wit.ts").Count;
}
declare module "lapse:plugin/sql@1.0.0" {
  export const transact: import("../wit.ts").Transact;
  export const read: import("../wit.ts").Read;
}
