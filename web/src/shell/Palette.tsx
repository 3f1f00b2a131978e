/** Every page and command by name. */
import { useNavigate } from "@tanstack/react-router";
import { Autocomplete, Input, Menu, MenuItem, SearchField, useFilter } from "react-aria-components";

import { dropToken } from "../api/session";
import { useTypes } from "../api/queries";
import { useValue } from "../api/store";
import { actions, shell, states } from "../text";
import { Modal } from "../ui/Modal";
import { density, savedViews } from "../ui/prefs";
import { PAGES } from "./Rail";
import { nextTheme, togglePause, toggleZone } from "./TopBar";

type Command = { id: string; name: string; run: () => void };

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const navigate = useNavigate();
  const types = useTypes();
  const views = useValue(savedViews);
  const { contains } = useFilter({ sensitivity: "base" });
  const go = (to: string, search: Record<string, string> = {}) => () => void navigate({ to, search: search as never });
  const commands: Command[] = [
    ...PAGES.map(({ to, name }) => ({ id: to, name: `${shell.palette.goTo} ${name}`, run: go(to) })),
    { id: "overdue", name: `${shell.nav.timers}: ${states.overdue}`, run: go("/timers", { state: "overdue" }) },
    { id: "failed", name: `${shell.nav.timers}: ${states.failed}`, run: go("/timers", { state: "failed" }) },
    { id: "register", name: actions.names.register, run: go("/timers/new") },
    { id: "upload", name: actions.names.upload, run: go("/types/upload") },
    { id: "theme", name: shell.theme.label, run: nextTheme },
    { id: "zone", name: `${shell.zone.utc} / ${shell.zone.local}`, run: toggleZone },
    { id: "pause", name: shell.live.pause, run: togglePause },
    { id: "density", name: shell.density.label, run: () => density.set(density.get() === "dense" ? "normal" : "dense") },
    { id: "help", name: shell.help.title, run: onHelp },
    ...views.map((v) => ({ id: `view ${v.name}`, name: `${shell.savedViews.title}: ${v.name}`, run: () => void navigate({ href: v.address } as never) })),
    ...(types.data?.items ?? []).slice(0, 200).map((t) => ({ id: `type ${t.name}`, name: `${shell.nav.types}: ${t.name}`, run: go(`/types/${encodeURIComponent(t.name)}`) })),
    { id: "sign-out", name: shell.signOut, run: () => dropToken() },
  ];
  return (
    <Modal title={null} label={shell.palette.label} onClose={onClose}>
      <Autocomplete filter={contains}>
        <SearchField aria-label={shell.palette.label} autoFocus className="palette-field">
          <Input placeholder={shell.palette.placeholder} />
        </SearchField>
        <Menu
          aria-label={shell.palette.label}
          items={commands}
          className="palette"
          renderEmptyState={() => <p className="quiet">{shell.palette.none}</p>}
          onAction={(id) => {
            onClose();
            commands.find((c) => c.id === id)?.run();
          }}
        >
          {(command) => (
            <MenuItem id={command.id} textValue={command.name} className="palette-item">
              {command.name}
            </MenuItem>
          )}
        </Menu>
      </Autocomplete>
    </Modal>
  );
}
