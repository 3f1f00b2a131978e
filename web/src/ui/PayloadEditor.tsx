/** A JSON value by form or as text. The text is the truth where a form would lose something. */
import RjsfForm from "@rjsf/core/lib/components/Form.js";
import { useId, useMemo, useState, type ComponentType } from "react";

import { hasExactNumbers, parse, stringify, type Json } from "../api/lossless";
import type { Fault } from "../api/problem";
import { extraErrors, makeValidator } from "./schemaValidator";
import { register } from "../text";
import { Foreign } from "./text";

const validator = makeValidator();

/** The form with the few properties that are used: its own types are deeper than the compiler goes. */
const Form = RjsfForm as unknown as ComponentType<Record<string, unknown>>;

/** Nothing is made up that the person did not write, but for the rows that a list must have. */
const DEFAULTS = { constAsDefaults: "never", emptyObjectFields: "skipEmptyDefaults", arrayMinItems: { populate: "requiredOnly" }, allOf: "skipDefaults" };

const UI = { "ui:submitButtonOptions": { norender: true }, "ui:options": { label: false } };

type Props = { schema: Json | undefined; text: string; onChange: (text: string) => void; faults?: Fault[]; under: string; label: string };

export function readJson(text: string): { value?: Json; why?: string } {
  try {
    return { value: parse(text) };
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error) };
  }
}

export function PayloadEditor({ schema, text, onChange, faults = [], under, label }: Props) {
  const id = useId();
  const hasSchema = schema !== null && typeof schema === "object" && !Array.isArray(schema) && "properties" in schema;
  const [mode, setMode] = useState<"form" | "json">(hasSchema ? "form" : "json");
  const { value, why } = readJson(text);
  const exact = value !== undefined && hasExactNumbers(value);
  const formPossible = hasSchema && why === undefined && !exact;
  const asForm = mode === "form" && formPossible;
  const extra = useMemo(() => extraErrors(faults, under), [faults, under]);
  const mine = faults.filter((f) => f.pointer === under || f.pointer?.startsWith(`${under}/`));
  return (
    <div className="payload-editor">
      <div className="segments" role="group" aria-label={label}>
        <button type="button" aria-pressed={asForm} aria-disabled={!formPossible} title={exact ? register.noForm : undefined} onClick={() => formPossible && setMode("form")}>
          {register.form}
        </button>
        <button type="button" aria-pressed={!asForm} onClick={() => setMode("json")}>
          {register.json}
        </button>
      </div>
      {asForm ? (
        <Form
          tagName="div"
          schema={schema}
          validator={validator}
          formData={value}
          extraErrors={extra}
          showErrorList={false}
          liveValidate={false}
          experimental_defaultFormStateBehavior={DEFAULTS}
          idPrefix={`${id}-form`}
          onChange={({ formData }: { formData?: unknown }) => onChange(stringify(formData ?? {}, 2))}
          uiSchema={UI}
        >
          <></>
        </Form>
      ) : (
        <>
          <textarea id={`${id}-json`} aria-label={label} className="mono" rows={12} spellCheck={false} value={text} aria-invalid={why !== undefined || mine.length > 0} aria-describedby={`${id}-why`} onChange={(e) => onChange(e.target.value)} />
          <div id={`${id}-why`}>
            {why ? (
              <p className="field-error">
                <Foreign>{register.badJson(why)}</Foreign>
              </p>
            ) : null}
            {exact ? <p className="hint">{register.noForm}</p> : null}
          </div>
        </>
      )}
      {!asForm && mine.length > 0 ? (
        <ul className="field-error">
          {mine.map((f, n) => (
            <li key={n}>
              <code>{f.pointer}</code> <Foreign>{f.detail ?? ""}</Foreign>
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}
