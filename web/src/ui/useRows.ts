/** Keys on a list: j and k move, Enter opens, x selects. The row under the pointer never moves. */
import { useCallback, useEffect, useState } from "react";

import { useValue } from "../api/store";
import { inField } from "./keys";
import { shortcuts } from "./prefs";

export type RowKeys = { index: number; setIndex: (n: number) => void };

type Params = { length: number; onOpen: (index: number) => void; onSelect?: (index: number) => void; scrollTo: (index: number) => void };

export function useRowKeys({ length, onOpen, onSelect, scrollTo }: Params): RowKeys {
  const [index, setIndex] = useState(-1);
  const on = useValue(shortcuts) === "on";

  const move = useCallback(
    (step: number) => {
      const next = Math.min(length - 1, Math.max(0, index + step));
      if (length === 0) return;
      setIndex(next);
      scrollTo(next);
      // The row may not be there before it has been scrolled to.
      requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-row="${next}"] a`)?.focus());
    },
    [index, length, scrollTo],
  );

  useEffect(() => {
    if (!on) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target) || document.querySelector("[role=dialog]")) return;
      if (event.key === "j") move(1);
      else if (event.key === "k") move(-1);
      else if (event.key === "x" && index >= 0) onSelect?.(index);
      else if (event.key === "Enter" && index >= 0 && event.target === document.body) onOpen(index);
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [on, move, index, onOpen, onSelect]);

  return { index, setIndex };
}
