/** What each role may do: one map that drives every control. The server remains the judge. */
import { ROLES, type Role } from "./model";

export type Right =
  | "register"
  | "resolve"
  | "cancel"
  | "reschedule"
  | "fire"
  | "retry"
  | "redrive"
  | "pause_type"
  | "resume_type"
  | "revoke"
  | "upload"
  | "put_type"
  | "grant"
  | "dry_run"
  | "namespace";

const HOLDERS: Record<Right, readonly Role[]> = {
  register: ["producer", "operator", "admin"],
  resolve: ["producer", "operator", "admin"],
  cancel: ["producer", "operator", "admin"],
  reschedule: ["producer", "operator", "admin"],
  fire: ["operator", "admin"],
  retry: ["operator", "admin"],
  redrive: ["operator", "admin"],
  pause_type: ["operator", "admin"],
  resume_type: ["operator", "admin"],
  revoke: ["operator", "admin"],
  upload: ["publisher", "operator", "admin"],
  put_type: ["publisher", "operator", "admin"],
  grant: ["operator", "admin"],
  dry_run: ["publisher", "operator", "admin"],
  namespace: ["admin"],
};

/** A role that is not known is not a reason to take a control away: the server will say. */
export function may(role: Role | undefined, right: Right): boolean {
  return role === undefined || HOLDERS[right].includes(role);
}

/** The smallest role that holds it, for the sentence that says what is needed. */
export function needed(right: Right): Role {
  return ROLES.find((role) => HOLDERS[right].includes(role)) ?? "admin";
}
