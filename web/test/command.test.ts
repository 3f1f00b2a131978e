import { expect, it } from "vitest";

import { cli, curl } from "../src/actions/command";
import { namespace } from "../src/api/session";
import { grantKey, grantSentence } from "../src/ui/Grants";
import { extraErrors } from "../src/ui/schemaValidator";

it("quotes whatever somebody wrote for the shell", () => {
  const body = { reason: "it's $(rm -rf /)" };
  const text = curl({ method: "POST", path: "/v1/timers/1/cancel", body, ifMatch: 7 }, "http://h");
  expect(text).toContain(`-H 'If-Match: "7"'`);
  expect(text).toContain(`"Authorization: Bearer $LAPSE_TOKEN"`);
  expect(text).toContain(String.raw`-d '{"reason":"it'\''s $(rm -rf /)"}'`);
  expect(cli("timer", "cancel", "id", "--reason", "a b")).toBe("lapse timer cancel id --reason 'a b'");
});

it("shows no command for a namespace that the command cannot name", () => {
  namespace.set("other");
  expect(cli("pause", "--type", "t")).toBeUndefined();
  expect(curl({ method: "PUT", path: "/v1/types/t/pause" }, "http://h")).toContain("Lapse-Namespace: other");
  namespace.set(undefined);
});

it("writes rights as sentences", () => {
  expect(grantSentence("http:api.shop.example")).toBe("In compensations: may send requests to api.shop.example");
  expect(grantSentence("on-expire:sql:orders")).toBe("While deciding: may run transactions on the data source orders");
  expect(grantKey("http:a")).toBe(grantKey("compensate:http:a"));
});

it("puts the server's pointers on their fields", () => {
  const faults = [
    { pointer: "/payload/items/0/sku", detail: "too short" },
    { pointer: "/key", detail: "no" },
    { pointer: "/payload/__proto__/x", detail: "no" },
  ];
  expect(extraErrors(faults, "/payload")).toMatchObject({ items: { "0": { sku: { __errors: ["too short"] } } } });
  expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
});
