import { shell } from "../text";
import { useValue } from "../api/store";
import { Modal } from "../ui/Modal";
import { shortcuts } from "../ui/prefs";

export function Help({ onClose }: { onClose: () => void }) {
  const on = useValue(shortcuts) === "on";
  return (
    <Modal title={shell.help.title} onClose={onClose}>
      <table className="plain">
        <tbody>
          {shell.help.rows.map(([key, what]) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label className="approve">
        <input type="checkbox" checked={on} onChange={(e) => shortcuts.set(e.target.checked ? "on" : "off")} /> {shell.help.off}
      </label>
      <p className="hint">{shell.help.offHint}</p>
    </Modal>
  );
}
