import { useEffect, useId, useState } from "react";

import { useTypes } from "../../api/queries";
import { common, compensations as words, states, timers } from "../../text";
import type { Search } from "../../ui/address";

const STATES = ["dead", "pending", "running", "done"] as const;
const AGES = ["1h", "24h", "7d"] as const;
const CLASSES = ["transient", "conflict", "downstream", "permanent", "poison"] as const;

type Props = { search: Search; set: (patch: Search) => void; grouped: boolean };

export function Filters({ search, set, grouped }: Props) {
  const types = useTypes();
  const known = (types.data?.items ?? []).map((t) => t.name);
  const type = search["type"] ?? "";
  return (
    <form className="filters" role="search" aria-label={timers.filters.label} onSubmit={(e) => e.preventDefault()}>
      {grouped ? null : (
        <Choice label={words.filters.state} value={search["state"] === "all" ? "" : (search["state"] ?? "dead")} onChange={(v) => set({ state: v || "all" })} options={STATES.map((s) => [s, states[s]])} />
      )}
      <Choice label={words.filters.type} value={type} onChange={(v) => set({ type: v || undefined })} options={(type && !known.includes(type) ? [type, ...known] : known).map((n) => [n, n])} />
      <Text label={words.filters.kind} value={search["kind"] ?? ""} onCommit={(v) => set({ kind: v })} />
      {grouped ? null : (
        <>
          <Text label={words.filters.host} value={search["host"] ?? ""} onCommit={(v) => set({ host: v })} />
          <Choice label={words.filters.error} value={search["error"] ?? ""} onChange={(v) => set({ error: v || undefined })} options={CLASSES.map((c) => [c, c])} />
          <Choice label={words.filters.age} value={search["age"] ?? ""} onChange={(v) => set({ age: v || undefined })} options={AGES.map((a) => [a, a])} />
        </>
      )}
    </form>
  );
}

function Choice({ label, value, onChange, options }: { label: string; value: string; onChange: (v: string) => void; options: (readonly [string, string])[] }) {
  const id = useId();
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={(e) => onChange(e.target.value)}>
        <option value="">{common.any}</option>
        {options.map(([v, text]) => (
          <option key={v} value={v}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

function Text({ label, value, onCommit }: { label: string; value: string; onCommit: (v: string | undefined) => void }) {
  const id = useId();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const commit = () => text !== value && onCommit(text || undefined);
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <input id={id} value={text} autoComplete="off" spellCheck={false} onChange={(e) => setText(e.target.value)} onBlur={commit} onKeyDown={(e) => e.key === "Enter" && commit()} />
    </div>
  );
}
