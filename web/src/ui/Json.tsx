/** JSON as a tree of text nodes, with exact numbers, and its raw form. */
import { useState } from "react";

import { numberText, stringify, type Json } from "../api/lossless";
import { bytes } from "../text/format";
import { common } from "../text";
import { CopyButton } from "./Copy";
import { Foreign } from "./text";

/** Beyond these, a branch starts closed, and a string is cut until asked for. */
const OPEN_DEPTH = 3;
const OPEN_ENTRIES = 30;
const LONG_STRING = 400;
const MOST_ENTRIES = 500;
const BIG = 8 * 1024;

function Scalar({ value }: { value: Json }) {
  const [whole, setWhole] = useState(false);
  const number = numberText(value);
  if (number !== undefined) return <span className="json-number">{number}</span>;
  if (typeof value !== "string") return <span className="json-word">{String(value)}</span>;
  const long = value.length > LONG_STRING && !whole;
  return (
    <span className="json-string">
      “<Foreign>{long ? value.slice(0, LONG_STRING) : value}</Foreign>
      {long ? "…" : "”"}
      {long ? (
        <button type="button" className="link-button" onClick={() => setWhole(true)}>
          {common.bigPayload(bytes(value.length))}
        </button>
      ) : null}
    </span>
  );
}

function isBranch(value: Json): value is Json[] | { [name: string]: Json } {
  return value !== null && typeof value === "object" && numberText(value) === undefined;
}

function Node({ name, value, depth }: { name?: string; value: Json; depth: number }) {
  const label = name === undefined ? null : (
    <>
      <Foreign className="json-name">{name}</Foreign>:{" "}
    </>
  );
  if (!isBranch(value)) {
    return (
      <li>
        {label}
        <Scalar value={value} />
      </li>
    );
  }
  const entries: [string | undefined, Json][] = Array.isArray(value) ? value.map((v) => [undefined, v]) : Object.entries(value);
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  if (entries.length === 0) {
    return (
      <li>
        {label}
        <span className="json-word">{Array.isArray(value) ? "[]" : "{}"}</span>
      </li>
    );
  }
  return (
    <li>
      <details open={depth < OPEN_DEPTH && entries.length <= OPEN_ENTRIES}>
        <summary>
          {label}
          <span className="json-size">{size}</span>
        </summary>
        <ul>
          {entries.slice(0, MOST_ENTRIES).map(([key, child], n) => (
            <Node key={key ?? n} name={key} value={child} depth={depth + 1} />
          ))}
          {entries.length > MOST_ENTRIES ? <li>…</li> : null}
        </ul>
      </details>
    </li>
  );
}

export function JsonView({ value, label }: { value: Json | undefined; label: string }) {
  const [raw, setRaw] = useState(false);
  const text = value === undefined ? "" : stringify(value, 2);
  const [shown, setShown] = useState(text.length <= BIG);
  if (value === undefined) return <p className="quiet">{common.none}</p>;
  if (!shown) {
    return (
      <button type="button" className="button" onClick={() => setShown(true)}>
        {common.bigPayload(bytes(text.length))}
      </button>
    );
  }
  return (
    <div className="json">
      <div className="json-bar">
        <div className="segments" role="group" aria-label={label}>
          <button type="button" aria-pressed={!raw} onClick={() => setRaw(false)}>
            {common.reads.formatted}
          </button>
          <button type="button" aria-pressed={raw} onClick={() => setRaw(true)}>
            {common.reads.raw}
          </button>
        </div>
        <CopyButton text={() => stringify(value)} label={`${common.copy} ${label}`} bare />
      </div>
      {raw ? (
        <pre tabIndex={0} aria-label={label} dir="ltr">
          {text}
        </pre>
      ) : (
        <ul className="json-tree" dir="ltr">
          <Node value={value} depth={0} />
        </ul>
      )}
    </div>
  );
}
