/** Rights as sentences. */
import { types } from "../text";
import { Foreign } from "./text";

export type ParsedGrant = { export: string; right: "http" | "sql" | "secret"; what: string };

export function parseGrant(text: string): ParsedGrant | undefined {
  const match = /^(?:(on-expire|on-remind|compensate):)?(http|sql|secret):(.+)$/.exec(text);
  if (!match) return undefined;
  return { export: match[1] ?? "compensate", right: match[2] as ParsedGrant["right"], what: match[3] ?? "" };
}

export function grantSentence(text: string): string {
  const grant = parseGrant(text);
  if (!grant) return text;
  return `${types.grant[grant.export] ?? grant.export}: ${types.right[grant.right](grant.what)}`;
}

/** The one form of a grant, for comparing. */
export function grantKey(text: string): string {
  const grant = parseGrant(text.trim());
  return grant ? `${grant.export}:${grant.right}:${grant.what}` : text.trim();
}

export function GrantList({ grants, none }: { grants: readonly string[]; none: string }) {
  if (grants.length === 0) return <p className="quiet">{none}</p>;
  return (
    <ul className="grants">
      {grants.map((grant) => (
        <li key={grant}>
          <Foreign>{grantSentence(grant)}</Foreign>
        </li>
      ))}
    </ul>
  );
}
