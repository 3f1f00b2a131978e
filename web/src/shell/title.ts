import { useEffect } from "react";

import { common } from "../text";

/** The tab's name: what the page shows, then the product. */
export function usePageTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · ${common.product}`;
  }, [title]);
}
