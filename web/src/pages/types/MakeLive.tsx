/** A plugin made into a type, or a type's next revision; new rights are approved apart from the rest. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId, useState } from "react";

import { curl } from "../../actions/command";
import { call } from "../../api/http";
import type { Json } from "../../api/lossless";
import type { Plugin, TimerType } from "../../api/model";
import { Problem, type Fault } from "../../api/problem";
import { needed } from "../../api/rights";
import { typePath, useRevisions, useTypes } from "../../api/queries";
import { actions, upload as words, types } from "../../text";
import { Code } from "../../ui/Copy";
import { GrantList, grantKey, parseGrant } from "../../ui/Grants";
import { Guarded } from "../../ui/Guarded";
import { ErrorPanel, Panel } from "../../ui/Panel";
import { PayloadEditor, readJson } from "../../ui/PayloadEditor";
import { stringify } from "../../api/lossless";
import { toast } from "../../ui/toast";

export function MakeLive({ plugin }: { plugin: Plugin }) {
  const id = useId();
  const client = useQueryClient();
  const all = useTypes();
  const [name, setName] = useState(plugin.manifest.name);
  const known = all.data?.items.find((t) => t.name === name);
  const [config, setConfig] = useState<string>();
  const [grants, setGrants] = useState<string>();
  /** The rights that were approved: others are not. */
  const [approved, setApproved] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [made, setMade] = useState<TimerType>();

  // What was set for the type apart from its plugin goes over to the next revision.
  const revisions = useRevisions(name, known !== undefined);
  const active = revisions.data?.items.find((r) => r.active);
  // What the active revision has is the start; a person's own text stays.
  const configText = config ?? stringify(known?.config ?? {}, 2);
  const grantsText = grants ?? (known?.grants ?? []).join("\n");
  const json = readJson(configText);
  const lines = grantsText.split("\n").map((l) => l.trim()).filter(Boolean);
  const bad = lines.filter((l) => !parseGrant(l));
  const held = new Set((known?.grants ?? []).map(grantKey));
  const gained = lines.filter((l) => parseGrant(l) && !held.has(grantKey(l)));
  const path = typePath(name);
  const body = {
    digest: plugin.digest,
    config: json.value ?? {},
    grants: lines,
    ...(known?.concurrency === undefined ? {} : { concurrency: known.concurrency }),
    ...(known?.rate === undefined ? {} : { rate: known.rate }),
    ...(active?.default_delay === undefined ? {} : { default_delay: active.default_delay }),
    ...(active === undefined ? {} : { retry: active.retry }),
  };
  const wanted = JSON.stringify([name, gained]);
  const isApproved = gained.length === 0 || approved === wanted;
  const faults: Fault[] = error instanceof Problem ? (error.body.errors ?? []) : [];
  const missing = json.why ?? (bad[0] !== undefined ? `${bad[0]}: ${words.grantsHint}` : !isApproved ? words.approveNeeded : known && !active ? words.reading : undefined);

  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { data } = await call<TimerType>(path, { method: "PUT", body });
      setMade(data);
      void client.invalidateQueries({ queryKey: ["types"] });
      void client.invalidateQueries({ queryKey: ["type", name] });
      toast(words.done(name, String(data.revision)));
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Panel title={words.steps.live}>
      <form noValidate onSubmit={(e) => e.preventDefault()}>
        <div className="field">
          <label htmlFor={`${id}-name`}>{words.typeName}</label>
          <input id={`${id}-name`} list={`${id}-names`} className="mono" value={name} autoComplete="off" aria-describedby={`${id}-name-hint`} onChange={(e) => setName(e.target.value)} />
          <datalist id={`${id}-names`}>
            {(all.data?.items ?? []).map((t) => (
              <option key={t.name} value={t.name} />
            ))}
          </datalist>
          <p id={`${id}-name-hint`} className="hint">
            {words.typeHint}
          </p>
        </div>
        <div className="field">
          <p className="label">{types.config}</p>
          <PayloadEditor schema={plugin.manifest.config_schema as Json | undefined} text={configText} onChange={setConfig} faults={faults} under="/config" label={types.config} />
        </div>
        <div className="field">
          <label htmlFor={`${id}-grants`}>{words.grants}</label>
          <textarea id={`${id}-grants`} className="mono" rows={4} spellCheck={false} value={grantsText} aria-describedby={`${id}-grants-hint`} aria-invalid={bad.length > 0} onChange={(e) => setGrants(e.target.value)} />
          <p id={`${id}-grants-hint`} className="hint">
            {words.grantsHint}
          </p>
        </div>
        {gained.length > 0 ? (
          <div className="notice">
            <h3>{words.gained}</h3>
            <GrantList grants={gained} none="" />
            <p className="small">{words.approveRole(needed("grant"))}</p>
            <label className="approve">
              <input type="checkbox" checked={isApproved} onChange={(e) => setApproved(e.target.checked ? wanted : undefined)} /> {words.approve}
            </label>
          </div>
        ) : null}
        {active ? <p className="small">{words.kept(String(active.number), active.default_delay, String(active.retry.attempts))}</p> : null}
        <p className="small">{words.affectedText}</p>
        {error ? <ErrorPanel error={error} right={gained.length > 0 ? "grant" : "put_type"} /> : null}
        <Guarded right={gained.length > 0 ? "grant" : "put_type"} kind="primary" submit because={missing} onPress={() => !busy && void submit()}>
          {busy ? `${actions.pending}…` : words.submit}
        </Guarded>
        <details className="as-call">
          <summary>{actions.asCall}</summary>
          <Code label={actions.curl} text={curl({ method: "PUT", path, body })} />
        </details>
        {made ? (
          <p role="status">
            {words.done(made.name, String(made.revision))}.{" "}
            <Link to="/types/$type" params={{ type: made.name }}>
              {words.open}
            </Link>
          </p>
        ) : null}
      </form>
    </Panel>
  );
}
