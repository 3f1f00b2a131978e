/** Short messages about what has just been done. They stay until read where they tell of a fault. */
import { X } from "lucide-react";
import { useEffect, type ReactNode } from "react";

import { useValue, value } from "../api/store";
import { common } from "../text";

type Kind = "good" | "bad";
type Toast = { id: number; text: ReactNode; kind: Kind };

const SHOWN_MS = 6000;
const MOST = 4;

const toasts = value<readonly Toast[]>([]);
let next = 1;

export function toast(text: ReactNode, kind: Kind = "good"): void {
  toasts.set([...toasts.get(), { id: next, text, kind }].slice(-MOST));
  next += 1;
}

function remove(id: number): void {
  toasts.set(toasts.get().filter((t) => t.id !== id));
}

function One({ toast: t }: { toast: Toast }) {
  useEffect(() => {
    if (t.kind === "bad") return;
    const timer = setTimeout(() => remove(t.id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [t]);
  return (
    <div className={`toast toast-${t.kind}`}>
      <div>{t.text}</div>
      <button type="button" className="icon-button" aria-label={common.close} onClick={() => remove(t.id)}>
        <X aria-hidden size={14} />
      </button>
    </div>
  );
}

export function Toasts() {
  const all = useValue(toasts);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {all.map((t) => (
        <One key={t.id} toast={t} />
      ))}
    </div>
  );
}
