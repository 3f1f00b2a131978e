/** Search on the server, from anywhere: an id, a key, or the beginning of a key. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Search as SearchIcon } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";

import { common, shell } from "../text";
import { ErrorPanel } from "../ui/Panel";
import { TimerBadge } from "../ui/State";
import { Foreign, shorten } from "../ui/text";
import { find } from "./find";

/** After the last key, before the server is asked. */
const PAUSE_MS = 200;

export function SearchBox() {
  const navigate = useNavigate();
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  const [open, setOpen] = useState(false);
  const [index, setIndex] = useState(0);
  const wanted = text.trim();
  useEffect(() => {
    const timer = setTimeout(() => setAsked(wanted), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [wanted]);
  const read = useQuery({ queryKey: ["find", asked], queryFn: ({ signal }) => find(asked, signal), enabled: asked !== "" && open, staleTime: 5000 });
  const ready = asked === wanted ? read.data : undefined;
  const found = ready?.timers ?? [];
  const last = found.length;

  const close = () => {
    setOpen(false);
    setText("");
    input.current?.blur();
  };
  const choose = (n: number) => {
    const timer = found[n];
    if (timer) void navigate({ to: "/timers/$id", params: { id: timer.id } });
    else if (wanted) void navigate({ to: "/timers", search: { key: wanted } as never });
    close();
  };
  /** Enter may come before the answer: it then waits for it. */
  const enter = async () => {
    if (!wanted) return;
    if (ready) return choose(index);
    const controller = new AbortController();
    try {
      const now = await find(wanted, controller.signal);
      const only = now.timers[0];
      if (only) void navigate({ to: "/timers/$id", params: { id: only.id } });
      else void navigate({ to: "/timers", search: { key: wanted } as never });
      close();
    } catch {
      setAsked(wanted);
    }
  };

  return (
    <div className="search" onBlur={(e) => !e.currentTarget.contains(e.relatedTarget) && setOpen(false)}>
      <SearchIcon aria-hidden size={16} />
      <input
        ref={input}
        id="search"
        role="combobox"
        aria-expanded={open && wanted !== ""}
        aria-controls={`${id}-list`}
        aria-activedescendant={open && found.length > 0 ? `${id}-${index}` : undefined}
        aria-autocomplete="list"
        aria-label={shell.search.label}
        placeholder={shell.search.placeholder}
        title={shell.search.hint}
        autoComplete="off"
        spellCheck={false}
        dir="auto"
        value={text}
        onFocus={() => setOpen(true)}
        onChange={(e) => {
          setText(e.target.value);
          setOpen(true);
          setIndex(0);
        }}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown") setIndex((n) => Math.min(last, n + 1));
          else if (e.key === "ArrowUp") setIndex((n) => Math.max(0, n - 1));
          else if (e.key === "Enter") void enter();
          else if (e.key === "Escape") close();
          else return;
          e.preventDefault();
        }}
      />
      <kbd aria-hidden>/</kbd>
      <div id={`${id}-list`} role="listbox" aria-label={shell.search.label} className="search-list" hidden={!open || wanted === ""}>
        {read.error ? (
          <div role="option" aria-selected={false} aria-disabled>
            <ErrorPanel error={read.error} />
          </div>
        ) : null}
        {found.map((timer, n) => (
          <div key={timer.id} id={`${id}-${n}`} role="option" aria-selected={n === index} className="search-item" onPointerDown={(e) => e.preventDefault()} onClick={() => choose(n)}>
            <Foreign className="mono">{shorten(timer.key, 80)}</Foreign>
            <span className="small">{shell.search.inType(timer.type)}</span>
            <TimerBadge timer={timer} />
          </div>
        ))}
        <div id={`${id}-${last}`} role="option" aria-selected={index === last} className="search-item" onPointerDown={(e) => e.preventDefault()} onClick={() => choose(last)}>
          {ready ? (
            <Foreign>{found.length === 0 ? shell.search.none(shorten(wanted)) : shell.search.exact(shorten(wanted))}</Foreign>
          ) : (
            <span>{read.error ? common.retry : `${shell.search.searching}…`}</span>
          )}
        </div>
      </div>
    </div>
  );
}
