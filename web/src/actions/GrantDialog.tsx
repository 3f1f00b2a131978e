/** Taking a right from a type, whatever the revision, and giving it back. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { call } from "../api/http";
import type { TimerType } from "../api/model";
import { typePath } from "../api/queries";
import { actions } from "../text";
import { GrantList } from "../ui/Grants";
import { toast } from "../ui/toast";
import { cli } from "./command";
import { Frame } from "./frame";
import { Refused } from "./outcome";

type Props = { type: TimerType; grant: string; how: "revoke" | "restore"; onClose: () => void };

export function GrantDialog({ type, grant, how, onClose }: Props) {
  const client = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const words = actions[how];
  const body = { grants: [grant] };
  const path = `${typePath(type.name)}/${how}`;
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      client.setQueryData(["type", type.name], (await call<TimerType>(path, { method: "POST", body })).data);
      void client.invalidateQueries({ queryKey: ["types"] });
      toast(words.done(type.name));
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Frame
      title={words.title(type.name)}
      will={words.will}
      wont={words.wont}
      verb={actions.verbs[how]}
      right="revoke"
      danger={how === "revoke"}
      busy={busy}
      call={{ method: "POST", path, body }}
      cli={cli("type", how, type.name, grant)}
      notice={error ? <Refused error={error} verb={actions.verbs[how]} right="revoke" /> : null}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <GrantList grants={[grant]} none="" />
    </Frame>
  );
}
