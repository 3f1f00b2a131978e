import { X } from "lucide-react";
import { useEffect, useId, useState } from "react";

import { useTypes } from "../../api/queries";
import { useValue } from "../../api/store";
import { absolute } from "../../time/format";
import { fromField, toField } from "../../time/input";
import { common, states, timers } from "../../text";
import type { Search } from "../../ui/address";
import { zone } from "../../ui/prefs";
import { Foreign, shorten } from "../../ui/text";
import { useZoneName } from "../../ui/Time";
import { DUE_PRESETS, STATE_FILTERS } from "./filter";

type Props = { search: Search; set: (patch: Search) => void };

const words = timers.filters;

export function Filters({ search, set }: Props) {
  const types = useTypes();
  const id = useId();
  const change = (patch: Search) => set({ cursor: undefined, expired: undefined, ...patch });
  const due = search["due"] ?? "";
  const [custom, setCustom] = useState(false);
  const known = (types.data?.items ?? []).map((t) => t.name);
  const type = search["type"] ?? "";
  return (
    <form className="filters" role="search" aria-label={words.label} onSubmit={(e) => e.preventDefault()}>
      <div className="filter">
        <label htmlFor={`${id}-state`}>{words.state}</label>
        <select id={`${id}-state`} value={search["state"] ?? ""} onChange={(e) => change({ state: e.target.value || undefined })}>
          <option value="">{common.any}</option>
          {STATE_FILTERS.map((s) => (
            <option key={s} value={s}>
              {states[s]}
            </option>
          ))}
        </select>
      </div>
      <div className="filter">
        <label htmlFor={`${id}-type`}>{words.type}</label>
        <select id={`${id}-type`} value={type} onChange={(e) => change({ type: e.target.value || undefined })}>
          <option value="">{common.any}</option>
          {type && !known.includes(type) ? <option value={type}>{type}</option> : null}
          {known.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <Text label={words.key} value={search["key"] ?? ""} onCommit={(key) => change({ key })} />
      <div className="filter">
        <label htmlFor={`${id}-due`}>{words.due}</label>
        <select
          id={`${id}-due`}
          value={custom || due.includes("..") ? "custom" : due}
          onChange={(e) => {
            setCustom(e.target.value === "custom");
            if (e.target.value !== "custom") change({ due: e.target.value || undefined });
          }}
        >
          <option value="">{common.any}</option>
          {DUE_PRESETS.map((p) => (
            <option key={p} value={p}>
              {words.dueNext[p]}
            </option>
          ))}
          <option value="custom">{words.custom}</option>
        </select>
      </div>
      {custom || due.includes("..") ? <Range due={due} onChange={(next) => change({ due: next })} /> : null}
      <Text label={words.label2} value={search["label"] ?? ""} onCommit={(label) => change({ label })} placeholder="name=value" />
      <Chips search={search} change={change} onCustomGone={() => setCustom(false)} />
    </form>
  );
}

/** Sent on Enter and on leaving, so that half a key is never asked for. */
function Text({ label, value, onCommit, placeholder }: { label: string; value: string; onCommit: (next: string | undefined) => void; placeholder?: string }) {
  const id = useId();
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const commit = () => {
    if (text !== value) onCommit(text || undefined);
  };
  return (
    <div className="filter">
      <label htmlFor={id}>{label}</label>
      <input id={id} value={text} placeholder={placeholder} autoComplete="off" spellCheck={false} dir="auto" onChange={(e) => setText(e.target.value)} onBlur={commit} onKeyDown={(e) => e.key === "Enter" && commit()} />
    </div>
  );
}

function Range({ due, onChange }: { due: string; onChange: (next: string | undefined) => void }) {
  const z = useValue(zone);
  const zoneName = useZoneName();
  const id = useId();
  const [from = "", until = ""] = due.includes("..") ? due.split("..") : [];
  const put = (nextFrom: string, nextUntil: string) => onChange(nextFrom || nextUntil ? `${nextFrom}..${nextUntil}` : undefined);
  return (
    <div className="filter filter-range">
      <div>
        <label htmlFor={`${id}-from`}>
          {words.from} ({zoneName})
        </label>
        <input id={`${id}-from`} type="datetime-local" step={1} max="9999-12-31T23:59:59" value={from ? toField(from, z) : ""} onChange={(e) => put(fromField(e.target.value, z) ?? "", until)} />
      </div>
      <div>
        <label htmlFor={`${id}-until`}>
          {words.until} ({zoneName})
        </label>
        <input id={`${id}-until`} type="datetime-local" step={1} max="9999-12-31T23:59:59" value={until ? toField(until, z) : ""} onChange={(e) => put(from, fromField(e.target.value, z) ?? "")} />
      </div>
    </div>
  );
}

function Chips({ search, change, onCustomGone }: { search: Search; change: (patch: Search) => void; onCustomGone: () => void }) {
  const z = useValue(zone);
  const chips: { name: string; text: string }[] = [];
  const add = (name: string, text: string | undefined) => text && chips.push({ name, text });
  add("state", search["state"] && `${words.state}: ${states[search["state"] as keyof typeof states] ?? search["state"]}`);
  if (search["expired"] === "true" && !search["state"]) add("expired", words.overdue);
  add("type", search["type"] && `${words.type}: ${search["type"]}`);
  add("key", search["key"] && `${words.key}: ${shorten(search["key"], 40)}`);
  add("due", search["due"] && dueText(search["due"], z));
  add("label", search["label"] && `${words.label2}: ${search["label"]}`);
  if (chips.length === 0) return null;
  const clear = Object.fromEntries(chips.map((c) => [c.name, undefined]));
  return (
    <ul className="chips">
      {chips.map((c) => (
        <li key={c.name}>
          <button
            type="button"
            className="chip"
            aria-label={words.remove(c.text)}
            onClick={() => {
              if (c.name === "due") onCustomGone();
              change({ [c.name]: undefined });
            }}
          >
            <Foreign>{c.text}</Foreign>
            <X aria-hidden size={12} />
          </button>
        </li>
      ))}
      {chips.length > 1 ? (
        <li>
          <button
            type="button"
            className="link-button"
            onClick={() => {
              onCustomGone();
              change(clear);
            }}
          >
            {common.clearFilters}
          </button>
        </li>
      ) : null}
    </ul>
  );
}

function dueText(due: string, z: "local" | "utc"): string {
  const preset = words.dueNext[due];
  if (preset) return `${words.due}: ${preset}`;
  const [from = "", until = ""] = due.split("..");
  if (from && until) return `${words.due}: ${words.dueRange(absolute(from, z, "seconds"), absolute(until, z, "seconds"))}`;
  return `${words.due} ${from ? words.dueAfter(absolute(from, z, "seconds")) : words.dueBefore(absolute(until, z, "seconds"))}`;
}
