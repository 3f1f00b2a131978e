/** What failed for host X, and is it safe to retry? */
import { usePageTitle } from "../../shell/title";
import { SavedViews } from "../../shell/SavedViews";
import { common, compensations as words } from "../../text";
import { useAddress } from "../../ui/address";
import { CopyButton } from "../../ui/Copy";
import { Filters } from "./Filters";
import { Groups } from "./Groups";
import { Rows } from "./Rows";

/** Without a state in the address the page shows the dead, in groups; opening a group puts it in the address. */
export function CompensationsPage() {
  usePageTitle(words.title);
  const [search, set] = useAddress();
  const grouped = !search["state"] && search["host"] === undefined && !search["error"];
  return (
    <>
      <header className="page-head">
        <h1>{words.title}</h1>
        <div className="page-tools">
          <SavedViews />
          <CopyButton label={common.copyLink} text={() => location.href} />
        </div>
      </header>
      <nav className="tabs" aria-label={words.title}>
        <button type="button" aria-pressed={grouped} onClick={() => set({ state: undefined, host: undefined, error: undefined, cursor: undefined }, { push: true })}>
          {words.grouped}
        </button>
        <button type="button" aria-pressed={!grouped} onClick={() => set({ state: search["state"] ?? "all", cursor: undefined }, { push: true })}>
          {words.list}
        </button>
      </nav>
      <Filters search={search} set={(patch) => set({ cursor: undefined, ...patch }, { push: true })} grouped={grouped} />
      {grouped ? <Groups search={search} set={set} /> : <Rows search={search} set={set} />}
    </>
  );
}
