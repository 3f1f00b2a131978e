/** A timer's compensations, with their state and latest error. */
import { Link } from "@tanstack/react-router";

import { useTimerCompensations } from "../../api/queries";
import { attempt, timer as words } from "../../text";
import { Loaded, Panel } from "../../ui/Panel";
import { Badge } from "../../ui/State";
import { Foreign } from "../../ui/text";

export function OfTimer({ id }: { id: string }) {
  const read = useTimerCompensations(id);
  return (
    <Panel title={words.compensations}>
      <Loaded query={read} lines={2}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="quiet">{words.noCompensations}</p>
          ) : (
            <ul className="of-timer">
              {items.map((c) => (
                <li key={c.id}>
                  <Link to="/compensations/$id" params={{ id: c.id }}>
                    {c.kind}
                  </Link>{" "}
                  <Badge look={c.state} extra={c.attempt > 1 ? attempt(c.attempt) : undefined} />
                  {c.last_error && c.state !== "done" ? (
                    <p className="small">
                      <Foreign>{c.last_error.message ?? c.last_error.code ?? ""}</Foreign>
                    </p>
                  ) : null}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  );
}
