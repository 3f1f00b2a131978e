/** A button that stays in its place when it may not be pressed, and says why. */
import { useId, type ReactNode } from "react";

import { health } from "../api/health";
import type { Role } from "../api/model";
import { useSelf } from "../api/queries";
import { may, needed, type Right } from "../api/rights";
import { useValue } from "../api/store";
import { actions } from "../text";

export function useRole(): Role | undefined {
  return useSelf().data?.role;
}

/** Why an action is off; undefined when it is on. */
export function useOff(right: Right, because?: string): string | undefined {
  const role = useRole();
  const { away } = useValue(health);
  if (away) return actions.off.away;
  if (!may(role, right)) return actions.off.role(needed(right), role ?? "");
  return because;
}

type Props = {
  right: Right;
  /** Another reason than the role or the server. */
  because?: string;
  onPress: () => void;
  children: ReactNode;
  kind?: "primary" | "danger" | "plain";
  submit?: boolean;
};

export function Guarded({ right, because, onPress, children, kind = "plain", submit }: Props) {
  const off = useOff(right, because);
  const id = useId();
  return (
    <span className="guarded" data-tip={off}>
      <button
        type={submit ? "submit" : "button"}
        className={`button button-${kind}`}
        aria-disabled={off ? true : undefined}
        aria-describedby={off ? id : undefined}
        onClick={(event) => {
          if (off) event.preventDefault();
          else onPress();
        }}
      >
        {children}
      </button>
      {off ? (
        <span id={id} className="offscreen">
          {off}
        </span>
      ) : null}
    </span>
  );
}
