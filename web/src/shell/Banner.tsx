/** Says when the server is away, and when the clocks differ; asks again with growing waits until it is back. */
import { useQueryClient } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { useEffect, useRef } from "react";

import { backoffMs, CAP_MS } from "../api/backoff";
import { health } from "../api/health";
import { call } from "../api/http";
import { liveState, wakeLive, type LiveState } from "../api/live";
import { useValue } from "../api/store";
import { TELLING_MS, useOffset } from "../time/clock";
import { length } from "../time/duration";
import { absolute } from "../time/format";
import { shell } from "../text";
import { zone } from "../ui/prefs";
import { toast } from "../ui/toast";

/** Without a stream, and with none that opens by itself. */
const UNTOLD: ReadonlySet<LiveState> = new Set(["absent", "paused", "crowded"]);

export function Banner() {
  const { away, lastAnswerMs } = useValue(health);
  const z = useValue(zone);
  const offset = useOffset();
  const probe = useProbe(away);
  return (
    <>
      {away ? (
        <div className="banner" role="alert">
          <TriangleAlert aria-hidden size={16} />
          <span>{lastAnswerMs ? shell.away(absolute(new Date(lastAnswerMs).toISOString(), z, "clock")) : shell.awayNever}</span>
          <button type="button" className="button" onClick={probe}>
            {shell.awayTry}
          </button>
        </div>
      ) : null}
      {Math.abs(offset) > TELLING_MS ? (
        <p className="banner banner-quiet">
          <span>{shell.clock(length(offset), offset > 0 ? "behind" : "ahead")}</span>
        </p>
      ) : null}
    </>
  );
}

/** While the server is away: one small question, jittered, at the most every 30 s. Any answer is good news. */
function useProbe(away: boolean): () => void {
  const client = useQueryClient();
  const now = useRef<() => void>(() => undefined);
  const wasAway = useRef(false);
  useEffect(() => {
    if (!away) {
      if (wasAway.current) {
        wasAway.current = false;
        toast(shell.back);
        // A stream that opens again takes its own fresh snapshot; without one it is taken here.
        if (UNTOLD.has(liveState.get())) void client.invalidateQueries();
        else {
          wakeLive();
          void client.invalidateQueries({ predicate: (q) => q.state.status === "error" });
        }
      }
      return;
    }
    wasAway.current = true;
    let attempt = 0;
    let timer: ReturnType<typeof setTimeout>;
    const ask = () => {
      clearTimeout(timer);
      timer = setTimeout(ask, document.hidden ? CAP_MS : backoffMs(attempt));
      attempt += 1;
      // An answer, whatever it says, ends the absence; see `reach`.
      call("/healthz").catch(() => undefined);
    };
    now.current = ask;
    timer = setTimeout(ask, backoffMs(0));
    return () => clearTimeout(timer);
  }, [away, client]);
  return () => now.current();
}
