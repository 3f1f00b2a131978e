/** Upload a component: drop or choose, its check report, its rights approved apart, then live. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";

import { call } from "../../api/http";
import type { Plugin } from "../../api/model";
import { actions, shell, types, upload as words } from "../../text";
import { bytes, millis } from "../../text/format";
import { usePageTitle } from "../../shell/title";
import { useOff } from "../../ui/Guarded";
import { ErrorPanel, Panel } from "../../ui/Panel";
import { Fact, Facts, Foreign, Mono } from "../../ui/text";
import { MakeLive } from "./MakeLive";

export function UploadPage() {
  usePageTitle(words.title);
  const client = useQueryClient();
  const off = useOff("upload");
  const input = useRef<HTMLInputElement>(null);
  const [file, setFile] = useState<File>();
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const [done, setDone] = useState<{ plugin: Plugin; created: boolean }>();

  const send = async (chosen: File) => {
    if (off || busy) return;
    setFile(chosen);
    setBusy(true);
    setError(undefined);
    setDone(undefined);
    try {
      const { data, status } = await call<Plugin>("/v1/plugins", { method: "POST", octets: chosen });
      setDone({ plugin: data, created: status === 201 });
      void client.invalidateQueries({ queryKey: ["plugins"] });
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };

  return (
    <>
      <header className="page-head">
        <h1>{words.title}</h1>
      </header>
      <Panel title={words.steps.file}>
        <div
          className={over ? "drop drop-over" : "drop"}
          onDragOver={(e) => {
            e.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(e) => {
            e.preventDefault();
            setOver(false);
            const dropped = e.dataTransfer.files[0];
            if (dropped) void send(dropped);
          }}
        >
          <p>{file ? <Foreign>{words.chosen(file.name, bytes(file.size))}</Foreign> : words.drop}</p>
          <input
            ref={input}
            type="file"
            accept=".wasm,application/wasm"
            className="offscreen"
            aria-label={words.choose}
            tabIndex={-1}
            onChange={(e) => {
              const chosen = e.target.files?.[0];
              if (chosen) void send(chosen);
              e.target.value = "";
            }}
          />
          <button type="button" className="button button-primary" aria-disabled={off || busy ? true : undefined} title={off} onClick={() => !off && !busy && input.current?.click()}>
            {file ? words.another : words.choose}
          </button>
          {off ? <p className="small off-why">{off}</p> : null}
        </div>
        {busy ? (
          <p role="status">
            <progress aria-label={words.sending} /> {words.sending}…
          </p>
        ) : null}
      </Panel>
      {error ? (
        <Panel title={words.refused}>
          <ErrorPanel error={error} onRetry={file ? () => void send(file) : undefined} right="upload" />
        </Panel>
      ) : null}
      {done ? <Report plugin={done.plugin} created={done.created} /> : null}
      {done ? <MakeLive plugin={done.plugin} /> : null}
      <p className="small">
        {actions.byCli}: <code>lapse plugin push FILE --type TYPE</code> · <Link to="/types">{shell.nav.types}</Link>
      </p>
    </>
  );
}

function Report({ plugin, created }: { plugin: Plugin; created: boolean }) {
  const { manifest } = plugin;
  return (
    <Panel title={words.report} aside={<span className="badge badge-resolved">{created ? words.new : words.known}</span>}>
      <Facts>
        <Fact name={words.name}>
          <Foreign>{manifest.name}</Foreign>
        </Fact>
        <Fact name={words.version}>
          <Foreign>{manifest.version}</Foreign>
        </Fact>
        <Fact name={words.abi}>
          <Mono>{manifest.abi}</Mono>
        </Fact>
        <Fact name={words.size}>{bytes(plugin.size)}</Fact>
        {plugin.compile_ms === undefined ? null : <Fact name={words.compile}>{millis(plugin.compile_ms)}</Fact>}
        <Fact name={types.digest}>
          <Mono>{plugin.digest}</Mono>
        </Fact>
        <Fact name={words.imports}>{plugin.imports && plugin.imports.length > 0 ? plugin.imports.map((i) => <div key={i}><Mono>{i}</Mono></div>) : words.pureImports}</Fact>
        <Fact name={words.wants}>
          <ul className="grants">
            {Object.entries(manifest.exports ?? {}).flatMap(([name, wanted]) => [
              ...(wanted.required ?? []).map((c) => (
                <li key={`${name}r${c}`}>
                  {name}: {c} ({words.required})
                </li>
              )),
              ...(wanted.optional ?? []).map((c) => (
                <li key={`${name}o${c}`}>
                  {name}: {c} ({words.optional})
                </li>
              )),
            ])}
          </ul>
        </Fact>
      </Facts>
    </Panel>
  );
}
