import { Check, Copy as CopyIcon } from "lucide-react";
import { useEffect, useState } from "react";

import { common } from "../text";
import { copyText } from "./copy";
import { toast } from "./toast";

/** A button that copies; it says so for two seconds. */
export function CopyButton({ text, label, bare }: { text: string | (() => string); label: string; bare?: boolean }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  const Icon = done ? Check : CopyIcon;
  const press = async () => {
    const ok = await copyText(typeof text === "string" ? text : text());
    setDone(ok);
    if (!ok) toast(common.copyFailed, "bad");
  };
  return (
    <button type="button" className={bare ? "icon-button" : "button"} onClick={() => void press()} aria-label={bare ? label : undefined} title={bare ? label : undefined}>
      <Icon aria-hidden size={14} />
      {bare ? null : <span>{done ? common.copied : label}</span>}
      <span className="offscreen" role="status">
        {done ? common.copied : ""}
      </span>
    </button>
  );
}

/** A command to paste, with its copy button. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div className="code">
      <pre tabIndex={0} aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} label={`${common.copy} ${label}`} bare />
    </div>
  );
}
