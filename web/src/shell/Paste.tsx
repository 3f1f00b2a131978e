/** Asks for the key, and then shows the address that was asked for. */
import { useId, useState } from "react";

import { refusal, setToken } from "../api/session";
import { useValue } from "../api/store";
import { shell } from "../text";
import { Foreign } from "../ui/text";
import { usePageTitle } from "./title";

export function Paste() {
  usePageTitle(shell.paste.title);
  const why = useValue(refusal);
  const id = useId();
  const [text, setText] = useState("");
  return (
    <main className="paste">
      <form
        className="panel"
        onSubmit={(e) => {
          e.preventDefault();
          if (text.trim()) setToken(text.trim());
        }}
      >
        <h1>
          <img src="/favicon.svg" alt="" width={28} height={28} /> {shell.paste.title}
        </h1>
        {why ? (
          <p className="error" role="alert">
            <Foreign>{shell.paste.refused(why)}</Foreign>
          </p>
        ) : null}
        <p>{shell.paste.body}</p>
        <div className="field">
          <label htmlFor={id}>{shell.paste.label}</label>
          <input id={id} type="password" className="mono" autoFocus autoComplete="off" spellCheck={false} value={text} onChange={(e) => setText(e.target.value)} />
        </div>
        <button type="submit" className="button button-primary">
          {shell.paste.button}
        </button>
        <p className="hint">{shell.paste.hint}</p>
        <p className="hint">{shell.paste.fragment}</p>
      </form>
    </main>
  );
}
