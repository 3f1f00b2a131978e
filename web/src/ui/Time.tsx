/** Instants on the screen: relative in text, absolute with milliseconds on hover and focus. */
import type { SyntheticEvent } from "react";

import { useValue } from "../api/store";
import { useNow } from "../time/clock";
import { YEAR } from "../time/duration";
import { absolute, cell, overdueBy, past, relative, zoneName } from "../time/format";
import { zone } from "./prefs";
import { common } from "../text";

type Props = { iso: string | undefined; quiet?: boolean };

/** Both zones, for the tip. */
function both(iso: string): string {
  const local = absolute(iso, "local");
  const utc = absolute(iso, "utc");
  return local === utc ? utc : `${local}\n${utc}`;
}

function Stamp({ iso, text, quiet }: { iso: string; text: string; quiet?: boolean }) {
  // Written out once somebody looks: it costs more than all else of a cell, and a list has hundreds of them.
  const tell = (event: SyntheticEvent<HTMLElement>) => {
    event.currentTarget.dataset["tip"] = both(iso);
  };
  return (
    <time className="when" dateTime={iso} data-tip="" tabIndex={quiet ? undefined : 0} onPointerEnter={tell} onFocus={tell}>
      {text}
    </time>
  );
}

/** An event that has happened. */
export function Ago({ iso, quiet }: Props) {
  const now = useNow();
  const z = useValue(zone);
  if (!iso) return <>{common.unknown}</>;
  return <Stamp iso={iso} quiet={quiet} text={past(iso, now, z)} />;
}

/** A deadline: counts down, and up once it has passed while `open`. */
export function Countdown({ iso, open, quiet }: Props & { open: boolean }) {
  const now = useNow();
  const z = useValue(zone);
  if (!iso) return <>{common.unknown}</>;
  const at = Date.parse(iso);
  if (open && at <= now && now - at < YEAR) return <Stamp iso={iso} quiet={quiet} text={overdueBy(iso, now)} />;
  return <Stamp iso={iso} quiet={quiet} text={open || at > now ? relative(iso, now, z) : past(iso, now, z)} />;
}

/** An absolute time with its zone. */
export function At({ iso, quiet, full }: Props & { full?: boolean }) {
  const z = useValue(zone);
  if (!iso) return <>{common.unknown}</>;
  return <Stamp iso={iso} quiet={quiet} text={absolute(iso, z, full ? "full" : "seconds")} />;
}

/** An absolute time for a column whose head names the zone. */
export function AtCell({ iso }: Props) {
  const now = useNow();
  const z = useValue(zone);
  if (!iso) return <>{common.unknown}</>;
  return <Stamp iso={iso} quiet text={cell(iso, z, now)} />;
}

export function useZoneName(): string {
  const z = useValue(zone);
  return zoneName(z, Date.now());
}
