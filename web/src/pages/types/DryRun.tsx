/** A dry run: input left, decision right. Nothing comes of it. */
import { useId, useState } from "react";

import { curl } from "../../actions/command";
import { call } from "../../api/http";
import type { Json } from "../../api/lossless";
import type { DryRun, TimerType } from "../../api/model";
import { Problem, type Fault } from "../../api/problem";
import { typePath, useRevisions, useType } from "../../api/queries";
import { useValue } from "../../api/store";
import { fromField } from "../../time/input";
import { actions, dryRun as words } from "../../text";
import { bytes, count } from "../../text/format";
import { Code } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { JsonView } from "../../ui/Json";
import { ErrorPanel, Loaded, Panel } from "../../ui/Panel";
import { PayloadEditor, readJson } from "../../ui/PayloadEditor";
import { zone } from "../../ui/prefs";
import { Foreign } from "../../ui/text";
import { useZoneName } from "../../ui/Time";
import { useTypeName } from "./Type";

export function TypeDryRun() {
  const read = useType(useTypeName());
  return <Loaded query={read}>{(type) => <Both type={type} />}</Loaded>;
}

function Both({ type }: { type: TimerType }) {
  const id = useId();
  const z = useValue(zone);
  const zoneName = useZoneName();
  const revisions = useRevisions(type.name);
  const [key, setKey] = useState("A17");
  const [payload, setPayload] = useState("{}");
  const [attempt, setAttempt] = useState("1");
  const [due, setDue] = useState("");
  const [revision, setRevision] = useState("");
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState<DryRun>();
  const [error, setError] = useState<unknown>();

  const json = readJson(payload);
  const dueIso = fromField(due, z);
  const body = {
    key,
    payload: json.value ?? {},
    ...(attempt !== "1" && /^\d+$/.test(attempt) ? { attempt: Number(attempt) } : {}),
    ...(dueIso ? { due_at: dueIso } : {}),
    ...(revision ? { revision: Number(revision) } : {}),
  };
  const path = `${typePath(type.name)}/dry-run`;
  const faults: Fault[] = error instanceof Problem ? (error.body.errors ?? []) : [];
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { data } = await call<DryRun>(path, { method: "POST", body });
      setResult(data);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <p className="note">{words.note}</p>
      <div className="columns">
        <Panel title={words.input}>
          <form
            noValidate
            onSubmit={(e) => {
              e.preventDefault();
            }}
          >
            <div className="field">
              <label htmlFor={`${id}-key`}>{words.key}</label>
              <input id={`${id}-key`} className="mono" dir="auto" value={key} autoComplete="off" onChange={(e) => setKey(e.target.value)} />
            </div>
            <div className="field-row">
              <div className="field">
                <label htmlFor={`${id}-attempt`}>{words.attempt}</label>
                <input id={`${id}-attempt`} inputMode="numeric" value={attempt} onChange={(e) => setAttempt(e.target.value)} />
              </div>
              <div className="field">
                <label htmlFor={`${id}-revision`}>{words.revision}</label>
                <select id={`${id}-revision`} value={revision} onChange={(e) => setRevision(e.target.value)}>
                  <option value="">{words.activeRevision}</option>
                  {(revisions.data?.items ?? []).map((r) => (
                    <option key={r.number} value={String(r.number)}>
                      {String(r.number)}
                    </option>
                  ))}
                </select>
              </div>
              <div className="field">
                <label htmlFor={`${id}-due`}>
                  {words.due} ({zoneName})
                </label>
                <input id={`${id}-due`} type="datetime-local" step={1} max="9999-12-31T23:59:59" value={due} onChange={(e) => setDue(e.target.value)} />
              </div>
            </div>
            <div className="field">
              <p className="label">{words.payload}</p>
              <PayloadEditor schema={type.payload_schema} text={payload} onChange={setPayload} faults={faults} under="/payload" label={words.payload} />
            </div>
            {error ? <ErrorPanel error={error} right="dry_run" /> : null}
            <Guarded right="dry_run" kind="primary" submit because={json.why} onPress={() => !busy && void run()}>
              {busy ? `${actions.pending}…` : words.run}
            </Guarded>
            <details className="as-call">
              <summary>{actions.asCall}</summary>
              <Code label={actions.curl} text={curl({ method: "POST", path, body })} />
            </details>
          </form>
        </Panel>
        <Panel title={words.output} aside={<span className="badge badge-skipped">{words.noEffects}</span>}>
          {result ? <Result result={result} /> : <p className="quiet">{words.nothing}</p>}
        </Panel>
      </div>
    </>
  );
}

function Result({ result }: { result: DryRun }) {
  const outcome = (result.decision as { outcome?: string } | undefined)?.outcome;
  return (
    <div role="status">
      {result.failure ? (
        <div className="error">
          <div className="error-body">
            <p className="error-title">
              {words.failed} <code>{result.failure.class}</code> {result.failure.code ? <code>{result.failure.code}</code> : null}
            </p>
            <p>
              <Foreign>{result.failure.message ?? ""}</Foreign>
            </p>
          </div>
        </div>
      ) : null}
      {outcome ? <p className="why-sentence">{outcome}</p> : null}
      {result.decision !== undefined ? <JsonView value={result.decision as Json} label={words.output} /> : null}
      {result.denied && result.denied.length > 0 ? (
        <>
          <h3>{words.denied}</h3>
          <ul className="grants">
            {result.denied.map((d, n) => (
              <li key={n}>
                <Foreign>{d}</Foreign>
              </li>
            ))}
          </ul>
        </>
      ) : null}
      <h3>{words.logs}</h3>
      {result.logs && result.logs.length > 0 ? (
        <ol className="logs">
          {result.logs.map((line, n) => (
            <li key={n}>
              <code>{line.level}</code> <Foreign>{line.message}</Foreign>
            </li>
          ))}
        </ol>
      ) : (
        <p className="quiet">{words.noLogs}</p>
      )}
      {result.cpu_us === undefined ? null : <p className="small">{words.cost(`${count(result.cpu_us)} µs`, bytes(result.memory_bytes ?? 0))}</p>}
    </div>
  );
}
