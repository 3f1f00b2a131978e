/** The dead, grouped by host, error class and kind; oldest first. */
import { useEffect, useMemo, useState } from "react";
import { useQueryClient } from "@tanstack/react-query";

import { RedriveDialog } from "../../actions/RedriveDialog";
import { onLive } from "../../api/live";
import { useDeadCompensations } from "../../api/queries";
import { compensations as words } from "../../text";
import { count } from "../../text/format";
import type { Search } from "../../ui/address";
import { Guarded } from "../../ui/Guarded";
import { checkedAt, Loaded, NoMatch, NothingWrong } from "../../ui/Panel";
import { Foreign } from "../../ui/text";
import { Ago } from "../../ui/Time";
import { groupDead, type Group } from "./groups";
import { useOnlyHosts } from "./useOnlyHosts";

type Props = { search: Search; set: (patch: Search, how?: { push?: boolean }) => void };

export function Groups({ search, set }: Props) {
  const client = useQueryClient();
  const query = { type: search["type"], kind: search["kind"] };
  const read = useDeadCompensations(query);
  const only = useOnlyHosts();
  const groups = useMemo(() => groupDead(read.data?.items ?? [], only), [read.data, only]);
  const [chosen, setChosen] = useState<Group>();
  useEffect(
    () =>
      onLive("compensations", ({ changed, dropped }) => {
        if (dropped > 0 || changed.some((c) => c.state === "dead")) void client.invalidateQueries({ queryKey: ["compensations", "dead"] });
      }),
    [client],
  );
  const filtered = search["type"] || search["kind"];
  return (
    <Loaded query={read} lines={5}>
      {({ items, more }) =>
        groups.length === 0 ? (
          filtered ? (
            <NoMatch text={words.noMatch} onClear={() => set({ type: undefined, kind: undefined }, { push: true })} />
          ) : (
            <NothingWrong text={words.nothingDead} atMs={checkedAt(read.dataUpdatedAt)} />
          )
        ) : (
          <>
            {more ? <p className="small">{words.group.more(count(items.length))}</p> : null}
            <div className="scroll-x">
              <table className="plain plain-wide cards groups">
                <thead>
                  <tr>
                    <th scope="col">{words.group.host}</th>
                    <th scope="col">{words.group.class}</th>
                    <th scope="col">{words.group.kind}</th>
                    <th scope="col" className="num">{words.group.count}</th>
                    <th scope="col">{words.group.oldest}</th>
                    <th scope="col">{words.group.newest}</th>
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {groups.map((g) => (
                    <tr key={g.id}>
                      <th scope="row">
                        <button
                          type="button"
                          className="link-button"
                          title={g.host ? undefined : words.group.noHostHint}
                          aria-label={words.group.open(`${g.host ?? words.group.noHost}, ${g.class}, ${g.kind}`)}
                          onClick={() => set({ state: "dead", host: g.host ?? "-", error: g.class || undefined, kind: g.kind }, { push: true })}
                        >
                          {g.host ? <Foreign>{g.host}</Foreign> : words.group.noHost}
                        </button>
                      </th>
                      <td data-label={words.group.class}>{g.class}</td>
                      <td data-label={words.group.kind}>
                        <Foreign>{g.kind}</Foreign>
                      </td>
                      <td className="num" data-label={words.group.count}>{count(g.rows.length) + (more ? "+" : "")}</td>
                      <td data-label={words.group.oldest}>
                        <Ago iso={new Date(g.oldest).toISOString()} />
                      </td>
                      <td data-label={words.group.newest}>
                        <Ago iso={new Date(g.newest).toISOString()} />
                      </td>
                      <td>
                        <Guarded right="redrive" onPress={() => setChosen(g)}>
                          {words.group.redrive}
                        </Guarded>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {chosen ? <RedriveDialog rows={chosen.rows} what={`${words.what(count(chosen.rows.length))} · ${chosen.host ?? words.group.noHost} · ${chosen.kind}`} onClose={() => setChosen(undefined)} /> : null}
          </>
        )
      }
    </Loaded>
  );
}

