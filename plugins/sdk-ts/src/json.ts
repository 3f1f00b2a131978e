/** JSON of a value; one that has none (`undefined`, a function) is a mistake in the plugin. */
export function json(value: unknown): string {
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`a value that is to be JSON cannot be: ${String(value)}`);
  return text;
}
