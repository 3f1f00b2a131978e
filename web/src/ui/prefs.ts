/** What a person has chosen, kept in this browser: zone, theme, density, shortcuts, saved views. */
import { value } from "../api/store";
import type { Zone } from "../time/format";

function read(name: string): string | null {
  try {
    return localStorage.getItem(`lapse.${name}`);
  } catch {
    return null;
  }
}

function write(name: string, text: string): void {
  try {
    localStorage.setItem(`lapse.${name}`, text);
  } catch {
    // Private windows may refuse; the choice then lasts as long as the page.
  }
}

function oneOf<T extends string>(name: string, all: readonly T[], standard: T) {
  const stored = read(name) as T | null;
  const v = value<T>(stored && all.includes(stored) ? stored : standard);
  v.subscribe(() => write(name, v.get()));
  return v;
}

export const zone = oneOf<Zone>("zone", ["local", "utc"], "local");
export const theme = oneOf("theme", ["system", "light", "dark"] as const, "system");
export const density = oneOf("density", ["normal", "dense"] as const, "normal");
export const shortcuts = oneOf("shortcuts", ["on", "off"] as const, "on");

const systemDark = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  return theme.get() === "dark" || (theme.get() === "system" && systemDark.matches);
}

/** What charts listen to: they draw with colours that they read once. */
export const painted = value<"light" | "dark">(isDark() ? "dark" : "light");

export function applyPrefs(): void {
  const apply = () => {
    document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
    document.documentElement.dataset["density"] = density.get();
    painted.set(isDark() ? "dark" : "light");
  };
  theme.subscribe(apply);
  density.subscribe(apply);
  systemDark.addEventListener("change", apply);
  apply();
}

export type SavedView = { name: string; address: string };
const MAX_VIEWS = 50;

function views(): SavedView[] {
  try {
    const parsed = JSON.parse(read("views") ?? "[]") as unknown;
    if (!Array.isArray(parsed)) return [];
    return parsed.filter((v): v is SavedView => typeof v?.name === "string" && typeof v?.address === "string" && v.address.startsWith("/") && !v.address.startsWith("//"));
  } catch {
    return [];
  }
}

export const savedViews = value<readonly SavedView[]>(views());
savedViews.subscribe(() => write("views", JSON.stringify(savedViews.get())));

export function saveView(view: SavedView): void {
  savedViews.set([view, ...savedViews.get().filter((v) => v.name !== view.name)].slice(0, MAX_VIEWS));
}

export function removeView(name: string): void {
  savedViews.set(savedViews.get().filter((v) => v.name !== name));
}
