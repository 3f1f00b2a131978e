/** Rights as sentences. */
import type { ReactNode } from "react";

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

/** `revoked`: those that the type was granted and has no more. `after`: what can be done about one. */
export function GrantList({ grants, none, revoked = [], after }: { grants: readonly string[]; none: string; revoked?: readonly string[]; after?: (grant: string, revoked: boolean) => ReactNode }) {
  const gone = new Set(revoked.map(grantKey));
  if (grants.length === 0) return <p className="quiet">{none}</p>;
  return (
    <ul className="grants">
      {grants.map((grant) => {
        const isGone = gone.has(grantKey(grant));
        return (
          <li key={grant}>
            {isGone ? (
              <>
                <span className="badge badge-failed">{types.revoked}</span> <Foreign className="gone">{grantSentence(grant)}</Foreign>
              </>
            ) : (
              <Foreign>{grantSentence(grant)}</Foreign>
            )}{" "}
            {after?.(grant, isGone)}
          </li>
        );
      })}
    </ul>
  );
}
