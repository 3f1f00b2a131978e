/** The shortcuts that every page has. Single keys are off in fields, and can be switched off altogether. */
import { useEffect, useRef } from "react";

import { shortcuts } from "../ui/prefs";
import { inField } from "../ui/keys";
import { togglePause, toggleZone } from "./TopBar";

type Params = { onPalette: () => void; onHelp: () => void };

export function useKeyboard(params: Params): void {
  const latest = useRef(params);
  latest.current = params;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        latest.current.onPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target) || shortcuts.get() === "off") return;
      if (document.querySelector("[role=dialog]")) return;
      switch (event.key) {
        case "/":
          document.getElementById("search")?.focus();
          break;
        case "p":
          togglePause();
          break;
        case "u":
          toggleZone();
          break;
        case "?":
          latest.current.onHelp();
          break;
        default:
          return;
      }
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}
