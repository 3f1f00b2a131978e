/** A type's revisions, and making one of them the active one. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { cli } from "../../actions/command";
import { Frame } from "../../actions/frame";
import { call } from "../../api/http";
import type { Revision, TimerType } from "../../api/model";
import { typePath, useRevisions, useType } from "../../api/queries";
import { useValue } from "../../api/store";
import { cell } from "../../time/format";
import { actions, types as words } from "../../text";
import { count } from "../../text/format";
import { GrantList, grantKey } from "../../ui/Grants";
import { Guarded } from "../../ui/Guarded";
import { ErrorPanel, Loaded } from "../../ui/Panel";
import { zone } from "../../ui/prefs";
import { Foreign, Mono, shortDigest } from "../../ui/text";
import { useZoneName } from "../../ui/Time";
import { toast } from "../../ui/toast";
import { useTypeName } from "./Type";

export function TypeRevisions() {
  const name = useTypeName();
  const read = useRevisions(name);
  const type = useType(name);
  const z = useValue(zone);
  const zoneName = useZoneName();
  const [chosen, setChosen] = useState<Revision>();
  return (
    <Loaded query={read} lines={4}>
      {({ items }) => (
        <>
          <div className="scroll-x">
            <table className="plain plain-wide cards">
              <thead>
                <tr>
                  <th scope="col">{words.revisions.number}</th>
                  <th scope="col">{words.revisions.digest}</th>
                  <th scope="col">{words.revisions.made(zoneName)}</th>
                  <th scope="col">{words.revisions.by}</th>
                  <th scope="col">{words.revisions.grants}</th>
                  <td />
                </tr>
              </thead>
              <tbody>
                {items.map((r) => (
                  <tr key={r.number}>
                    <th scope="row">
                      {String(r.number)} {r.active ? <span className="badge badge-resolved">{words.revisions.active}</span> : null}
                    </th>
                    <td title={r.digest} data-label={words.revisions.digest}>
                      <Mono>{shortDigest(r.digest)}</Mono>
                    </td>
                    <td data-label={words.revisions.made(zoneName)}>{r.created_at ? cell(r.created_at, z, Date.now()) : "–"}</td>
                    <td data-label={words.revisions.by}>
                      <Foreign>{r.created_by ?? "–"}</Foreign>
                    </td>
                    <td data-label={words.revisions.grants}>
                      <GrantList grants={r.grants ?? []} none="–" revoked={type.data?.revoked} />
                    </td>
                    <td>
                      <Guarded right="put_type" because={r.active ? actions.off.active : undefined} onPress={() => setChosen(r)}>
                        {actions.names.activate}
                      </Guarded>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {chosen && type.data ? <ActivateDialog type={type.data} revision={chosen} onClose={() => setChosen(undefined)} /> : null}
        </>
      )}
    </Loaded>
  );
}

function ActivateDialog({ type, revision, onClose }: { type: TimerType; revision: Revision; onClose: () => void }) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const number = String(revision.number);
  const path = `${typePath(type.name)}/activate`;
  const body = { revision: revision.number };
  const held = new Set((type.grants ?? []).map(grantKey));
  const gets = new Set((revision.grants ?? []).map(grantKey));
  const gained = [...gets].filter((g) => !held.has(g));
  const lost = [...held].filter((g) => !gets.has(g));
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      const { left_behind: left } = (await call<TimerType>(path, { method: "POST", body })).data;
      void client.invalidateQueries({ queryKey: ["type", type.name] });
      void client.invalidateQueries({ queryKey: ["types"] });
      toast(actions.done.activate(type.name, number) + (left ? ` ${actions.activate.left(count(left.timers) + (left.more ? "+" : ""))}` : ""));
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Frame
      title={actions.activate.title(type.name, number)}
      will={actions.activate.will(number)}
      wont={actions.activate.wont}
      verb={actions.verbs.activate}
      right={gained.length > 0 ? "grant" : "put_type"}
      busy={busy}
      call={{ method: "POST", path, body }}
      cli={cli("type", "activate", type.name, number)}
      notice={error ? <ErrorPanel error={error} right="put_type" /> : null}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <dl className="sides">
        <dt>{actions.activate.digest}</dt>
        <dd>
          <Mono>{revision.digest}</Mono>
        </dd>
        <dt>{actions.activate.gained}</dt>
        <dd>
          <GrantList grants={gained} none={actions.activate.noGained} />
        </dd>
        <dt>{actions.activate.lost}</dt>
        <dd>
          <GrantList grants={lost} none={actions.activate.noGained} />
        </dd>
      </dl>
    </Frame>
  );
}
