/** Pausing a type, and resuming it. */
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";

import { useFigures } from "../api/figures";
import { call } from "../api/http";
import type { TimerType } from "../api/model";
import { typePath } from "../api/queries";
import { parseDuration } from "../time/duration";
import { actions } from "../text";
import { capped } from "../text/format";
import { toast } from "../ui/toast";
import { cli } from "./command";
import { Frame, Reason } from "./frame";
import { Refused } from "./outcome";

type Props = { type: TimerType; onClose: () => void };

/** Takes the answer in, and has everything that shows the pause read again. */
function useTookIn() {
  const client = useQueryClient();
  return (type: TimerType) => {
    client.setQueryData(["type", type.name], type);
    for (const key of ["types", "stats", "timer"]) void client.invalidateQueries({ queryKey: [key] });
  };
}

export function PauseDialog({ type, onClose }: Props) {
  const tookIn = useTookIn();
  const { stats } = useFigures();
  const [reason, setReason] = useState("");
  const [until, setUntil] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const id = useId();

  const wanted = until.trim();
  const bad = wanted !== "" && parseDuration(wanted) === undefined;
  const body = { reason: reason.trim(), ...(wanted ? { until: wanted } : {}) };
  const path = `${typePath(type.name)}/pause`;
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      tookIn((await call<TimerType>(path, { method: "POST", body })).data);
      toast(actions.pause.done(type.name));
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Frame
      title={actions.pause.title(type.name)}
      will={actions.pause.will(type.name, capped(stats?.scheduled) ?? actions.pause.unknown)}
      wont={actions.pause.wont}
      verb={actions.verbs.pause}
      right="pause_type"
      missing={!body.reason ? actions.pause.reasonNeeded : bad ? actions.pause.badUntil : undefined}
      danger
      busy={busy}
      call={{ method: "POST", path, body }}
      cli={cli("pause", "--type", type.name, "--reason", body.reason, ...(wanted ? ["--until", wanted] : []))}
      notice={error ? <Refused error={error} verb={actions.names.pause} right="pause_type" /> : null}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      <Reason value={reason} onChange={setReason} hint={actions.pause.reasonNeeded} required />
      <div className="field">
        <label htmlFor={id}>{actions.pause.until}</label>
        <input id={id} value={until} autoComplete="off" aria-describedby={`${id}-hint`} aria-invalid={bad || undefined} onChange={(e) => setUntil(e.target.value)} />
        <p id={`${id}-hint`} className="hint">
          {bad ? actions.pause.badUntil : actions.pause.untilHint}
        </p>
      </div>
    </Frame>
  );
}

export function ResumeDialog({ type, onClose }: Props) {
  const tookIn = useTookIn();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const path = `${typePath(type.name)}/resume`;
  const own = type.paused?.scope === "type";
  const submit = async () => {
    setBusy(true);
    setError(undefined);
    try {
      tookIn((await call<TimerType>(path, { method: "POST" })).data);
      toast(actions.resume.done(type.name));
      onClose();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Frame
      title={actions.resume.title(type.name)}
      will={actions.resume.will}
      wont={actions.resume.wont}
      verb={actions.verbs.resume}
      right="resume_type"
      missing={own ? undefined : actions.resume.other}
      busy={busy}
      call={{ method: "POST", path }}
      cli={cli("resume", "--type", type.name)}
      notice={error ? <Refused error={error} verb={actions.names.resume} right="resume_type" /> : null}
      onSubmit={() => void submit()}
      onClose={onClose}
    />
  );
}
