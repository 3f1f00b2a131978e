import { Link } from "@tanstack/react-router";
import { Command, Keyboard, LogOut, Moon, Rows3, Rows4, Sun, SunMoon } from "lucide-react";

import { isPaused, liveState, setPaused } from "../api/live";
import { useSelf } from "../api/queries";
import { dropToken, namespace } from "../api/session";
import { useValue } from "../api/store";
import { useZoneName } from "../ui/Time";
import { density, theme, zone } from "../ui/prefs";
import { common, shell } from "../text";
import { Namespace } from "./Namespace";
import { SearchBox } from "./Search";

const THEMES = { system: { next: "light", Icon: SunMoon }, light: { next: "dark", Icon: Sun }, dark: { next: "system", Icon: Moon } } as const;

export function toggleZone(): void {
  zone.set(zone.get() === "utc" ? "local" : "utc");
}

export function togglePause(): void {
  setPaused(!isPaused());
}

export function nextTheme(): void {
  theme.set(THEMES[theme.get()].next);
}

export function TopBar({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }) {
  const t = useValue(theme);
  const d = useValue(density);
  const self = useSelf().data;
  const ns = useValue(namespace);
  const { Icon } = THEMES[t];
  return (
    <header className="top">
      <Link to="/" className="brand">
        <img src="/favicon.svg" alt="" width={20} height={20} />
        <span>{common.product}</span>
      </Link>
      <SearchBox />
      <div className="top-tools">
        {self?.role === "admin" || ns ? <Namespace /> : null}
        <LiveButton />
        <ZoneButton />
        <button type="button" className="icon-button" title={shell.theme[t]} aria-label={`${shell.theme.label}: ${shell.theme[t]}`} onClick={nextTheme}>
          <Icon aria-hidden size={16} />
        </button>
        <button type="button" className="icon-button wide-only" title={shell.density[d]} aria-label={`${shell.density.label}: ${shell.density[d]}`} onClick={() => density.set(d === "dense" ? "normal" : "dense")}>
          {d === "dense" ? <Rows4 aria-hidden size={16} /> : <Rows3 aria-hidden size={16} />}
        </button>
        <button type="button" className="icon-button wide-only" title={shell.palette.open} aria-label={shell.palette.open} onClick={onPalette}>
          <Command aria-hidden size={16} />
        </button>
        <button type="button" className="icon-button wide-only" title={shell.help.title} aria-label={shell.help.title} onClick={onHelp}>
          <Keyboard aria-hidden size={16} />
        </button>
        <button type="button" className="icon-button" title={shell.signOut} aria-label={shell.signOut} onClick={() => dropToken()}>
          <LogOut aria-hidden size={16} />
        </button>
      </div>
    </header>
  );
}

function LiveButton() {
  const state = useValue(liveState);
  const paused = state === "paused";
  if (state === "absent" || state === "crowded" || state === "off") {
    return (
      <span className={`live live-${state}`} title={state === "off" ? undefined : shell.live.hints[state]}>
        <span className="dot" aria-hidden />
        <span className="live-word">{shell.live[state]}</span>
      </span>
    );
  }
  return (
    <button type="button" className={`live live-${state}`} aria-pressed={paused} title={paused ? shell.live.resume : shell.live.pause} onClick={togglePause}>
      <span className="dot" aria-hidden />
      <span className="live-word">{shell.live[state]}</span>
    </button>
  );
}

function ZoneButton() {
  const name = useZoneName();
  return (
    <button type="button" className="zone" title={shell.zone.label(name)} aria-label={shell.zone.label(name)} onClick={toggleZone}>
      {name}
    </button>
  );
}
