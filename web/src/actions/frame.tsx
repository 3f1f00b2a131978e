/** What every action's dialog has: what will and will not happen, a reason, the call, and one button named by its verb. */
import { useId, type ReactNode } from "react";

import { useOff } from "../ui/Guarded";
import type { Right } from "../api/rights";
import { actions, common } from "../text";
import { Code } from "../ui/Copy";
import { Modal } from "../ui/Modal";
import { curl, type CallText } from "./command";

type FrameProps = {
  title: ReactNode;
  will: ReactNode;
  wont: ReactNode;
  children?: ReactNode;
  verb: string;
  right: Right;
  /** Something that is missing before it can be sent. */
  missing?: string;
  danger?: boolean;
  busy: boolean;
  /** There is nothing left to send. */
  finished?: boolean;
  call: CallText;
  cli?: string;
  notice?: ReactNode;
  onSubmit: () => void;
  onClose: () => void;
};

export function Frame(props: FrameProps) {
  const off = useOff(props.right, props.missing);
  const offId = useId();
  const { busy } = props;
  return (
    <Modal title={props.title} onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy && !off && !props.finished) props.onSubmit();
        }}
      >
        <dl className="effects">
          <dt>{actions.will}</dt>
          <dd>{props.will}</dd>
          <dt>{actions.wont}</dt>
          <dd>{props.wont}</dd>
        </dl>
        {props.children}
        {props.notice}
        <details className="as-call">
          <summary>{actions.asCall}</summary>
          <Code text={curl(props.call)} label={actions.curl} />
          {props.cli ? <Code text={props.cli} label={actions.cli} /> : <p className="small">{actions.noCli}</p>}
        </details>
        <footer className="dialog-foot">
          {off && !props.finished ? (
            <p id={offId} className="small off-why">
              {off}
            </p>
          ) : null}
          <button type="button" className="button" onClick={props.onClose}>
            {props.finished ? common.close : common.cancel}
          </button>
          {props.finished ? null : (
            <button
              type="submit"
              className={`button ${props.danger ? "button-danger" : "button-primary"}`}
              aria-disabled={off || busy ? true : undefined}
              aria-describedby={off ? offId : undefined}
            >
              {busy ? `${actions.pending}…` : props.verb}
            </button>
          )}
        </footer>
      </form>
    </Modal>
  );
}

type ReasonProps = { value: string; onChange: (next: string) => void; label?: string; hint?: string; required?: boolean };

/** The field that the focus starts on. */
export function Reason({ value, onChange, label = actions.reasonLabel, hint = actions.reasonHint, required }: ReasonProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        autoFocus
        value={value}
        maxLength={1000}
        autoComplete="off"
        required={required}
        placeholder={actions.reasonPlaceholder}
        aria-describedby={`${id}-hint`}
        onChange={(event) => onChange(event.target.value)}
      />
      <p id={`${id}-hint`} className="hint">
        {hint}
      </p>
    </div>
  );
}
