/**
 * Writes src/schema.ts (the document's types, by openapi-typescript) and src/operations.ts (its calls) from the OpenAPI
 * document. Usage: node generate.mjs DOCUMENT
 */
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const [source] = process.argv.slice(2);
if (!source) throw new Error("usage: node generate.mjs DOCUMENT");
const document = JSON.parse(await readFile(source, "utf8"));
const head = "// Generated from the OpenAPI document; not to be edited.\n\n";

const types = await openapiTS(document, { rootTypes: true, rootTypesNoSchemaPrefix: true, alphabetize: true });
await writeFile("src/schema.ts", head + astToString(types));

const methods = ["get", "put", "post", "delete", "patch"];
const calls = Object.entries(document.paths).flatMap(([path, item]) =>
  methods.filter((method) => item[method]).map((method) => ({ path, method, operation: item[method] })),
);

/** How an answer is read: by what the first success has. */
function answer(operation) {
  const [, success] = Object.entries(operation.responses).find(([status]) => status.startsWith("2")) ?? [];
  const [kind] = Object.keys(success?.content ?? {});
  if (kind === undefined) return "none";
  if (kind === "text/event-stream") return "stream";
  return kind.endsWith("json") ? "json" : "text";
}

function body(operation) {
  const [kind] = Object.keys(operation.requestBody?.content ?? {});
  if (kind === undefined) return "none";
  return kind === "application/octet-stream" ? "bytes" : "json";
}

function describe({ method, path, operation }) {
  const text = [operation.summary, operation.description, `\`${method.toUpperCase()} ${path}\``].filter(Boolean);
  // A comment must not end early.
  const lines = text.join("\n\n").replaceAll("*/", "*\\/").split("\n");
  return `  /**\n${lines.map((line) => `   * ${line}`.trimEnd()).join("\n")}\n   */\n`;
}

const camel = (id) => id.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

const table = calls.map(({ method, path, operation }) => {
  const parameters = operation.parameters ?? [];
  const row = {
    method,
    path,
    params: parameters.some((p) => p.in === "path" || p.in === "query"),
    body: body(operation),
    answer: answer(operation),
    idempotent: operation["x-lapse"].idempotent,
  };
  return `  ${camel(operation.operationId)}: ${JSON.stringify(row)},\n`;
});
const members = calls.map(
  (call) => `${describe(call)}  ${camel(call.operation.operationId)}: Call<"${call.operation.operationId}">;\n`,
);
await writeFile(
  "src/operations.ts",
  `${head}import type { Call, Operation } from "./call.js";

/** The calls of the API, one method an operation. */
export interface Calls {
${members.join("\n")}}

export const OPERATIONS: { readonly [Name in keyof Calls]: Operation } = {
${table.join("")}};

/** The version of the API's document, and of this package. */
export const VERSION = ${JSON.stringify(document.info.version)};
`,
);
