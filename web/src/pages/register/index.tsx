/** Register a timer: the type's form beside raw JSON and the call; the server's pointers land on their fields. */
import { useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";

import { cli, curl } from "../../actions/command";
import { call } from "../../api/http";
import { stringify } from "../../api/lossless";
import type { Timer } from "../../api/model";
import { isCode, Problem, type Fault } from "../../api/problem";
import { useTypes } from "../../api/queries";
import { useValue } from "../../api/store";
import { durationText, parseDuration } from "../../time/duration";
import { fromField } from "../../time/input";
import { actions, register as words, timers } from "../../text";
import { usePageTitle } from "../../shell/title";
import { useAddress } from "../../ui/address";
import { Code } from "../../ui/Copy";
import { Guarded } from "../../ui/Guarded";
import { ErrorPanel, Loaded, NothingYet, Panel } from "../../ui/Panel";
import { PayloadEditor, readJson } from "../../ui/PayloadEditor";
import { zone } from "../../ui/prefs";
import { Foreign, shorten } from "../../ui/text";
import { toast } from "../../ui/toast";
import { useZoneName } from "../../ui/Time";

export function RegisterPage() {
  usePageTitle(words.title);
  const types = useTypes();
  return (
    <>
      <header className="page-head">
        <h1>{words.title}</h1>
      </header>
      <Loaded query={types}>
        {({ items }) =>
          items.length === 0 ? (
            <NothingYet>
              <p>
                {words.noTypes} <Link to="/types/upload">{actions.names.upload}</Link>
              </p>
            </NothingYet>
          ) : (
            <Register types={items} />
          )
        }
      </Loaded>
    </>
  );
}

type When = "default" | "delay" | "due";

function Register({ types }: { types: { name: string; default_delay?: string; payload_schema?: unknown }[] }) {
  const [search, set] = useAddress();
  const navigate = useNavigate();
  const client = useQueryClient();
  const z = useValue(zone);
  const zoneName = useZoneName();
  const id = useId();
  const chosen = types.find((t) => t.name === search["type"]) ?? types[0];
  const type = chosen?.name ?? "";
  const [key, setKey] = useState("");
  const [when, setWhen] = useState<When>(chosen?.default_delay ? "default" : "delay");
  const [delay, setDelay] = useState("30m");
  const [due, setDue] = useState("");
  const [labels, setLabels] = useState("");
  const [payload, setPayload] = useState("{}");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const json = readJson(payload);
  const dueIso = fromField(due, z);
  const body = {
    type,
    key,
    payload: json.value ?? {},
    ...(when === "delay" ? { delay: delay.trim() } : when === "due" ? { due_at: dueIso } : {}),
    ...(labels.trim() ? { labels: readLabels(labels) } : {}),
  };
  const missing = json.why !== undefined ? words.badJson(json.why) : when === "delay" && parseDuration(delay.trim()) === undefined ? actions.reschedule.bad : when === "due" && !dueIso ? actions.reschedule.bad : undefined;
  const faults: Fault[] = error instanceof Problem ? (error.body.errors ?? []) : [];
  const at = (pointer: string) => faults.filter((f) => f.pointer === pointer);

  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { data, status } = await call<Timer>("/v1/timers", { method: "POST", body });
      client.setQueryData(["timer", data.id], data);
      void client.invalidateQueries({ queryKey: ["timers"] });
      toast(status === 200 ? words.same(shorten(key)) : words.created(shorten(key)));
      void navigate({ to: "/timers/$id", params: { id: data.id } });
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  const command = commandOf(body);
  return (
    <div className="columns">
      <form
        className="panel"
        noValidate
        onSubmit={(e) => {
          e.preventDefault();
        }}
      >
        <div className="field">
          <label htmlFor={`${id}-type`}>{words.type}</label>
          <select
            id={`${id}-type`}
            value={type}
            onChange={(e) => {
              set({ type: e.target.value });
              const next = types.find((t) => t.name === e.target.value);
              setWhen(next?.default_delay ? "default" : when === "default" ? "delay" : when);
            }}
          >
            {types.map((t) => (
              <option key={t.name} value={t.name}>
                {t.name}
              </option>
            ))}
          </select>
        </div>
        <div className="field">
          <label htmlFor={`${id}-key`}>{words.key}</label>
          <input id={`${id}-key`} className="mono" dir="auto" value={key} autoComplete="off" spellCheck={false} aria-describedby={`${id}-key-hint`} aria-invalid={at("/key").length > 0} onChange={(e) => setKey(e.target.value)} />
          <p id={`${id}-key-hint`} className="hint">
            {words.keyHint}
          </p>
          <FieldErrors faults={at("/key")} />
        </div>
        <fieldset className="field">
          <legend>{words.when}</legend>
          <div className="choice">
            {chosen?.default_delay ? (
              <label>
                <input type="radio" name={`${id}-when`} checked={when === "default"} onChange={() => setWhen("default")} /> {words.default(durationText(chosen.default_delay))}
              </label>
            ) : null}
            <label>
              <input type="radio" name={`${id}-when`} checked={when === "delay"} onChange={() => setWhen("delay")} /> {words.delay}
            </label>
            <label>
              <input type="radio" name={`${id}-when`} checked={when === "due"} onChange={() => setWhen("due")} /> {words.due(zoneName)}
            </label>
          </div>
          {when === "delay" ? (
            <>
              <input aria-label={words.delay} value={delay} autoComplete="off" aria-describedby={`${id}-delay-hint`} onChange={(e) => setDelay(e.target.value)} />
              <p id={`${id}-delay-hint`} className="hint">
                {words.delayHint}
              </p>
            </>
          ) : null}
          {when === "due" ? <input aria-label={words.due(zoneName)} type="datetime-local" step={1} max="9999-12-31T23:59:59" value={due} onChange={(e) => setDue(e.target.value)} /> : null}
          <FieldErrors faults={[...at("/delay"), ...at("/due_at")]} />
        </fieldset>
        <div className="field">
          <label htmlFor={`${id}-labels`}>{words.labels}</label>
          <textarea id={`${id}-labels`} rows={2} value={labels} spellCheck={false} aria-describedby={`${id}-labels-hint`} onChange={(e) => setLabels(e.target.value)} />
          <p id={`${id}-labels-hint`} className="hint">
            {words.labelsHint}
          </p>
          <FieldErrors faults={faults.filter((f) => f.pointer?.startsWith("/labels"))} />
        </div>
        <div className="field">
          <p className="label">{words.payload}</p>
          <PayloadEditor key={type} schema={chosen?.payload_schema as never} text={payload} onChange={setPayload} faults={faults} under="/payload" label={words.payload} />
        </div>
        {error ? <Failure error={error} /> : null}
        <footer className="form-foot">
          <Guarded right="register" kind="primary" submit because={missing} onPress={() => !busy && void submit()}>
            {busy ? `${actions.pending}…` : words.submit}
          </Guarded>
          <Link to="/timers" className="button">
            {timers.title}
          </Link>
        </footer>
      </form>
      <Panel title={words.call} className="sticky">
        <Code label={actions.curl} text={curl({ method: "POST", path: "/v1/timers", body })} />
        {command ? <Code label={actions.cli} text={command} /> : <p className="small">{actions.noCli}</p>}
      </Panel>
    </div>
  );
}

function Failure({ error }: { error: unknown }) {
  const other = isCode(error, "key_conflict") ? error.body.timer : undefined;
  return (
    <>
      <ErrorPanel error={error} right="register" />
      {other ? (
        <p>
          {words.conflict}:{" "}
          <Link to="/timers/$id" params={{ id: other.id }}>
            {words.openIt}
          </Link>
        </p>
      ) : null}
    </>
  );
}

function FieldErrors({ faults }: { faults: Fault[] }) {
  if (faults.length === 0) return null;
  return (
    <ul className="field-error">
      {faults.map((f, n) => (
        <li key={n}>
          <Foreign>{f.detail ?? f.code ?? ""}</Foreign>
        </li>
      ))}
    </ul>
  );
}

export function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) labels[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return labels;
}

function commandOf(body: { type: string; key: string; payload: unknown; delay?: string; due_at?: string; labels?: Record<string, string> }): string | undefined {
  const words = ["timer", "register", "--type", body.type, "--key", body.key, "--payload", stringify(body.payload)];
  if (body.delay) words.push("--delay", body.delay);
  if (body.due_at) words.push("--due-at", body.due_at);
  for (const [name, value] of Object.entries(body.labels ?? {})) words.push("--label", `${name}=${value}`);
  return cli(...words);
}
