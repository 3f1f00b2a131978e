/** The token and the namespace of this tab. The token lives in session storage and never in the address. */
import { value } from "./store";

const TOKEN = "lapse.token";

export const token = value<string | undefined>(undefined);
/** Why the token was refused, where it was. */
export const refusal = value<string | undefined>(undefined);
/** Another namespace than the key's own; only an admin may name one. */
export const namespace = value<string | undefined>(undefined);

function stored(): string | undefined {
  try {
    return sessionStorage.getItem(TOKEN) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Takes the token out of `#token=…`, and the fragment out of the address, before anything else reads either. */
export function openSession(): void {
  const fragment = new URLSearchParams(location.hash.replace(/^#/, ""));
  const given = fragment.get("token")?.trim();
  if (given) {
    setToken(given);
    fragment.delete("token");
    const rest = fragment.toString();
    history.replaceState(history.state, "", location.pathname + location.search + (rest ? `#${rest}` : ""));
  } else {
    token.set(stored());
  }
  followAddress(location.search);
}

/** The namespace is the one that the address names, whichever way the address has changed. */
export function followAddress(search: string): void {
  namespace.set(new URLSearchParams(search).get("ns") || undefined);
}

export function setToken(next: string): void {
  refusal.set(undefined);
  try {
    sessionStorage.setItem(TOKEN, next);
  } catch {
    // Without storage the token lasts until the next reload.
  }
  token.set(next);
}

export function dropToken(why?: string): void {
  try {
    sessionStorage.removeItem(TOKEN);
  } catch {
    // Nothing was stored.
  }
  refusal.set(why);
  token.set(undefined);
}
