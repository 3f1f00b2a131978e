/** Whether a key belongs to a field that somebody types in. */
export function inField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [role=textbox], [role=combobox]") !== null);
}
