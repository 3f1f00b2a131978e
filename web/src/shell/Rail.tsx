import { Link } from "@tanstack/react-router";
import { AlarmClock, Blocks, LayoutDashboard, Wrench } from "lucide-react";

import { shell } from "../text";

export const PAGES = [
  { to: "/", name: shell.nav.overview, Icon: LayoutDashboard },
  { to: "/timers", name: shell.nav.timers, Icon: AlarmClock },
  { to: "/types", name: shell.nav.types, Icon: Blocks },
  { to: "/compensations", name: shell.nav.compensations, Icon: Wrench },
] as const;

export function Rail() {
  return (
    <nav className="rail" aria-label={shell.navLabel}>
      {PAGES.map(({ to, name, Icon }) => (
        <Link key={to} to={to} activeOptions={{ exact: to === "/", includeSearch: false }}>
          <Icon aria-hidden size={18} />
          <span>{name}</span>
        </Link>
      ))}
    </nav>
  );
}
