/** The frame of every page; without a key, the page that asks for one. */
import { Outlet, useRouterState } from "@tanstack/react-router";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { onLive } from "../api/live";
import { token } from "../api/session";
import { useValue } from "../api/store";
import { shell } from "../text";
import { Toasts } from "../ui/toast";
import { Banner } from "./Banner";
import { Help } from "./Help";
import { useKeyboard } from "./keyboard";
import { Palette } from "./Palette";
import { Paste } from "./Paste";
import { Rail } from "./Rail";
import { TopBar } from "./TopBar";

export function Shell() {
  const key = useValue(token);
  return key ? <Frame /> : <Paste />;
}


function Frame() {
  const client = useQueryClient();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const [open, setOpen] = useState<"palette" | "help">();
  useKeyboard({ onPalette: () => setOpen("palette"), onHelp: () => setOpen("help") });
  // After an absence one fresh snapshot; nothing that was missed is replayed.
  useEffect(() => onLive("fresh", () => void client.invalidateQueries()), [client]);
  useEffect(
    () =>
      onLive("types", () => {
        void client.invalidateQueries({ queryKey: ["types"] });
        void client.invalidateQueries({ queryKey: ["type"] });
      }),
    [client],
  );
  return (
    <div className="frame">
      <a className="skip" href="#main">
        {shell.skip}
      </a>
      <TopBar onPalette={() => setOpen("palette")} onHelp={() => setOpen("help")} />
      <Rail />
      <main id="main" tabIndex={-1}>
        <Banner />
        <div key={path.split("/")[1]} className="page">
          <Outlet />
        </div>
      </main>
      <Toasts />
      {open === "palette" ? <Palette onClose={() => setOpen(undefined)} onHelp={() => setOpen("help")} /> : null}
      {open === "help" ? <Help onClose={() => setOpen(undefined)} /> : null}
    </div>
  );
}
