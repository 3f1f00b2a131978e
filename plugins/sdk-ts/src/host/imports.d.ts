declare module "lapse:plugin/http@1.0.0" {
  export const send: import("../wit.ts").Send;
}
declare module "lapse:plugin/log@1.0.0" {
  export const write: import("../wit.ts").Write;
}
declare module "lapse:plugin/sql@1.0.0" {
  export const transact: import("../wit.ts").Transact;
}
