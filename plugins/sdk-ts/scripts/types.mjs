// Writes src/wit.ts, the interfaces of the WIT as QuickJS gives and takes them; with --check, says whether it is current.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const folder = new URL("../../../wit/v1/", import.meta.url);
const out = new URL("../src/wit.ts", import.meta.url);

// A 64-bit number is a number here: exact up to 2^53, which is the year 287396 in milliseconds.
const PLAIN = {
  bool: "boolean", string: "string", char: "string",
  u8: "number", u16: "number", u32: "number", u64: "number", s8: "number", s16: "number", s32: "number",
  s64: "number", f32: "number", f64: "number",
};

const camel = (name) => name.replace(/-(.)/g, (_, c) => c.toUpperCase());
const pascal = (name) => camel(`-${name}`);

/** Splits at the commas that stand in no brackets. */
function split(text) {
  const parts = [];
  let depth = 0;
  let part = "";
  for (const c of text) {
    if ("<({".includes(c)) depth++;
    if (">)}".includes(c)) depth--;
    if (c === "," && depth === 0) {
      parts.push(part);
      part = "";
    } else part += c;
  }
  return [...parts, part].map((p) => p.trim()).filter(Boolean);
}

function type(text) {
  const generic = /^(list|option|tuple|result)<(.*)>$/s.exec(text);
  if (!generic) return PLAIN[text] ?? pascal(text);
  const [, name, inner] = generic;
  const inners = split(inner);
  if (name === "option") return `${type(inner)} | null`;
  if (name === "tuple") return `[${inners.map(type).join(", ")}]`;
  if (name === "result") return inners[0] === "_" ? "void" : type(inners[0]);
  return inner === "u8" ? "Uint8Array" : /[|]/.test(type(inner)) ? `(${type(inner)})[]` : `${type(inner)}[]`;
}

/** Comments that stand before a declaration, and the declaration. */
function items(text, pattern) {
  const found = [];
  let comments = [];
  for (let rest = text.trimStart(); rest; rest = rest.trimStart()) {
    const comment = /^\/\/\/?(.*)\n?/.exec(rest);
    const item = comment ?? pattern.exec(rest);
    if (!item) throw new Error(`this is not understood: ${rest.slice(0, 80)}`);
    rest = rest.slice(item[0].length);
    if (comment) {
      if (item[0].startsWith("///")) comments.push(comment[1].trim());
    } else {
      found.push({ comments, item });
      comments = [];
    }
  }
  return found;
}

const doc = (lines, indent = "") => (lines.length ? `${indent}/** ${lines.join(" ")} */\n` : "");
const LINE = /^([a-z0-9-]+)(?:\((.*)\)|: *(.*))?,?[ \t]*(?:\n|$)/;

function declaration({ comments, item }) {
  const [, kind, name, body, alias, func] = item;
  const head = doc(comments);
  if (kind === "type") return `${head}export type ${pascal(name)} = ${type(alias)};\n`;
  if (kind === "record") {
    const field = ({ comments, item: [, name, , given] }) =>
      `${doc(comments, "  ")}  ${camel(name)}: ${type(given.replace(/,$/, ""))};\n`;
    return `${head}export interface ${pascal(name)} {\n${items(body, LINE).map(field).join("")}}\n`;
  }
  if (kind === "enum") {
    const names = items(body, LINE).map(({ item }) => `"${item[1]}"`);
    return `${head}export type ${pascal(name)} = ${names.join(" | ")};\n`;
  }
  if (kind === "variant") {
    const one = ({ comments, item: [, name, given] }) =>
      `${doc(comments, "  ")}  | { tag: "${name}"${given ? `; val: ${type(given)}` : ""} }\n`;
    return `${head}export type ${pascal(name)} =\n${items(body, LINE).map(one).join("").trimEnd()};\n`;
  }
  const [, parameters, result] = /^func\((.*?)\)(?: *-> *(.*))?$/s.exec(func);
  const given = split(parameters).map((p) => p.split(/: */)).map(([n, t]) => `${camel(n)}: ${type(t)}`);
  return `${head}export type ${pascal(name)} = (${given.join(", ")}) => ${result ? type(result) : "void"};\n`;
}

const ITEM =
  /^(?:(record|variant|enum) ([a-z0-9-]+) \{(.*?)\n {4}\}|(?:(type) ([a-z0-9-]+) = (.*?);)|(?:([a-z0-9-]+): (func\(.*?\)(?: -> [^;]*)?);)|use [^;]*;)/s;

function interfaces(text) {
  const blocks = [];
  for (const [, name, body] of text.matchAll(/^interface ([a-z-]+) \{\n(.*?)^\}/gms)) {
    const found = items(body, ITEM).filter(({ item }) => !item[0].startsWith("use "));
    const read = found.map(({ comments, item: [whole, kind, name, body, type, alias, aliased, func, signature] }) =>
      declaration({ comments, item: [whole, kind ?? type ?? "func", name ?? alias ?? func, body, aliased, signature] }));
    blocks.push({ name, read });
  }
  return blocks;
}

const files = readdirSync(folder).filter((f) => f.endsWith(".wit")).sort();
const blocks = files.flatMap((file) => interfaces(readFileSync(new URL(file, folder), "utf8")));
let text = "// Written by `npm run types` from wit/v1: change that.\n";
for (const { name, read } of blocks) text += `\n// interface ${name}\n\n${read.join("\n")}`;

if (process.argv.includes("--check")) {
  if (readFileSync(out, "utf8") !== text) {
    console.error("src/wit.ts is not what wit/v1 says: npm run types");
    process.exit(1);
  }
} else writeFileSync(out, text);
