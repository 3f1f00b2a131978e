import { useMemo } from "react";

import { useTypes } from "../../api/queries";
import { onlyHosts, type OnlyHosts } from "./groups";

export function useOnlyHosts(): OnlyHosts {
  const types = useTypes().data?.items;
  return useMemo(() => onlyHosts(types ?? []), [types]);
}
