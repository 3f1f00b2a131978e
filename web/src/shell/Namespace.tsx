/** The namespace, for those who may look into another. It stands in the address as `?ns=`. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";

import { get } from "../api/http";
import type { Page } from "../api/model";
import { useSelf } from "../api/queries";
import { namespace } from "../api/session";
import { useValue } from "../api/store";
import { shell } from "../text";

export function Namespace() {
  const navigate = useNavigate();
  const current = useValue(namespace);
  const self = useSelf().data;
  const read = useQuery({
    queryKey: ["namespaces"],
    queryFn: ({ signal }) => get<Page<{ name: string }>>("/v1/namespaces", { limit: 500 }, signal),
    staleTime: 60_000,
  });
  const own = self?.namespace ?? "default";
  const names = new Set([own, ...(current ? [current] : []), ...(read.data?.items ?? []).map((n) => n.name)]);
  if (names.size < 2) return null;
  return (
    <select
      className="namespace"
      aria-label={shell.namespace}
      value={current ?? own}
      onChange={(e) => {
        const next = e.target.value === own ? undefined : e.target.value;
        void navigate({ to: "/", search: { ns: next } as never });
      }}
    >
      {[...names].map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}
