/** Views of this page, by name, in this browser. */
import { useLocation, useNavigate } from "@tanstack/react-router";
import { Bookmark, X } from "lucide-react";
import { useId, useState } from "react";

import { useValue } from "../api/store";
import { shell } from "../text";
import { removeView, savedViews, saveView } from "../ui/prefs";

const words = shell.savedViews;

export function SavedViews() {
  const views = useValue(savedViews);
  const location = useLocation();
  const navigate = useNavigate();
  const id = useId();
  const [name, setName] = useState("");
  const here = views.filter((v) => v.address.split("?")[0] === location.pathname);
  return (
    <details className="menu">
      <summary className="button">
        <Bookmark aria-hidden size={14} />
        {words.title}
      </summary>
      <div className="menu-body">
        {here.length === 0 ? <p className="quiet">{words.none}</p> : null}
        <ul>
          {here.map((v) => (
            <li key={v.name}>
              <button type="button" className="link-button" onClick={() => void navigate({ href: v.address } as never)}>
                {v.name}
              </button>
              <button type="button" className="icon-button" aria-label={words.remove(v.name)} onClick={() => removeView(v.name)}>
                <X aria-hidden size={14} />
              </button>
            </li>
          ))}
        </ul>
        <form
          onSubmit={(e) => {
            e.preventDefault();
            if (!name.trim()) return;
            saveView({ name: name.trim().slice(0, 80), address: location.href });
            setName("");
          }}
        >
          <label htmlFor={id}>{words.name}</label>
          <input id={id} value={name} maxLength={80} autoComplete="off" onChange={(e) => setName(e.target.value)} />
          <button type="submit" className="button">
            {words.save}
          </button>
        </form>
      </div>
    </details>
  );
}
