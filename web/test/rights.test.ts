import { expect, it } from "vitest";

import document from "../../openapi/openapi.json";
import { ROLES, type Role } from "../src/api/model";
import { may, needed, type Right } from "../src/api/rights";

/** Which call stands behind each control. */
const CALLS: Partial<Record<Right, string>> = {
  register: "register_timer",
  resolve: "resolve_timer",
  cancel: "cancel_timer",
  reschedule: "reschedule_timer",
  fire: "fire_timer",
  retry: "retry_timer",
  redrive: "redrive_compensation",
  pause_type: "pause_type",
  resume_type: "resume_type",
  revoke: "revoke_grants",
  upload: "upload_plugin",
  put_type: "put_type",
  dry_run: "dry_run_type",
};

type Operation = { operationId?: string; "x-lapse"?: { roles?: string[] } };

it("gives each role what the server gives it", () => {
  const paths = document.paths as unknown as Record<string, Record<string, Operation>>;
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  for (const [right, id] of Object.entries(CALLS) as [Right, string][]) {
    const roles = operations.find((o) => o.operationId === id)?.["x-lapse"]?.roles;
    expect(roles, id).toBeDefined();
    for (const role of ROLES) expect(may(role, right), `${role} ${right}`).toBe(roles?.includes(role));
  }
});

it("names the smallest role that would do, and trusts the server where the role is unknown", () => {
  expect(needed("cancel")).toBe("producer");
  expect(needed("redrive")).toBe("operator");
  expect(needed("put_type")).toBe("publisher");
  expect(may(undefined, "redrive")).toBe(true);
  for (const role of ["reader", "publisher"] as Role[]) expect(may(role, "cancel")).toBe(false);
});
