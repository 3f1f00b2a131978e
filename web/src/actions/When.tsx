/** A new due time: an instant in the zone that is shown, or a delay. */
import { useId } from "react";

import { useValue } from "../api/store";
import { parseDuration } from "../time/duration";
import { fromField } from "../time/input";
import { actions } from "../text";
import { zone } from "../ui/prefs";
import { useZoneName } from "../ui/Time";

export type When = { how: "at" | "in"; at: string; delay: string };

/** The part of the request, and the instant it stands for; undefined while it is not a time. */
export function whenRequest(when: When, z: "local" | "utc", nowMs: number): { body: { due_at: string } | { delay: string }; ms: number } | undefined {
  if (when.how === "in") {
    const ms = parseDuration(when.delay.trim());
    return ms === undefined ? undefined : { body: { delay: when.delay.trim() }, ms: nowMs + ms };
  }
  const iso = fromField(when.at, z);
  return iso === undefined ? undefined : { body: { due_at: iso }, ms: Date.parse(iso) };
}

export function WhenFields({ value, onChange }: { value: When; onChange: (next: When) => void }) {
  const id = useId();
  const zoneName = useZoneName();
  useValue(zone);
  return (
    <fieldset className="field">
      <legend className="offscreen">{actions.names.reschedule}</legend>
      <div className="choice">
        <label>
          <input type="radio" name={id} checked={value.how === "in"} onChange={() => onChange({ ...value, how: "in" })} /> {actions.reschedule.in}
        </label>
        <label>
          <input type="radio" name={id} checked={value.how === "at"} onChange={() => onChange({ ...value, how: "at" })} /> {actions.reschedule.at}
        </label>
      </div>
      {value.how === "in" ? (
        <>
          <label htmlFor={`${id}-in`}>{actions.reschedule.delayLabel}</label>
          <input id={`${id}-in`} value={value.delay} autoComplete="off" aria-describedby={`${id}-hint`} onChange={(e) => onChange({ ...value, delay: e.target.value })} />
          <p id={`${id}-hint`} className="hint">
            {actions.reschedule.delayHint}
          </p>
        </>
      ) : (
        <>
          <label htmlFor={`${id}-at`}>{actions.reschedule.dueLabel(zoneName)}</label>
          <input id={`${id}-at`} type="datetime-local" step={1} max="9999-12-31T23:59:59" value={value.at} onChange={(e) => onChange({ ...value, at: e.target.value })} />
        </>
      )}
    </fieldset>
  );
}
