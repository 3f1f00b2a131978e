/** `/types/{type}/timers/{key}`: finds the timer and goes to its own address. */
import { useQuery } from "@tanstack/react-query";
import { Navigate, useParams } from "@tanstack/react-router";

import { get } from "../../api/http";
import type { Page, Timer } from "../../api/model";
import { Problem } from "../../api/problem";
import { timer as words } from "../../text";
import { usePageTitle } from "../../shell/title";
import { Loaded } from "../../ui/Panel";

export function ByKeyPage() {
  const { type, key } = useParams({ strict: false }) as { type: string; key: string };
  usePageTitle(words.byKey);
  const read = useQuery({
    queryKey: ["by key", type, key],
    queryFn: async ({ signal }) => {
      // By filter, since a path would mangle some keys.
      const page = await get<Page<Timer>>("/v1/timers", { type, key, limit: 1 }, signal);
      const found = page.items[0];
      if (!found) throw new Problem(404, { title: "not found", code: "not_found", detail: `${type} has no timer with the key ${key}` });
      return found.id;
    },
  });
  return <Loaded query={read}>{(id) => <Navigate to="/timers/$id" params={{ id }} replace />}</Loaded>;
}
