/** Each action as somebody would do it without the console. */
import { stringify } from "../api/lossless";
import { namespace } from "../api/session";

export type CallText = { method: string; path: string; body?: unknown; ifMatch?: number };

/** Single quotes, POSIX: nothing inside is read by the shell. */
export function quote(text: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function curl({ method, path, body, ifMatch }: CallText, origin = location.origin): string {
  const parts = [`curl -X ${method} ${quote(origin + path)}`, `-H "Authorization: Bearer $LAPSE_TOKEN"`];
  const ns = namespace.get();
  if (ns) parts.push(`-H ${quote(`Lapse-Namespace: ${ns}`)}`);
  if (ifMatch !== undefined) parts.push(`-H 'If-Match: "${ifMatch}"'`);
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(stringify(body))}`);
  return parts.join(" \\\n  ");
}

/** Nothing where another namespace than the key's own is looked at: the command knows only that one. */
export function cli(...words: (string | undefined)[]): string | undefined {
  if (namespace.get()) return undefined;
  return ["lapse", ...words.filter((w): w is string => w !== undefined).map(quote)].join(" ");
}
