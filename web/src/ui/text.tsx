/** Text that somebody else wrote: text nodes only, isolated from our own direction, wrapping anywhere. */
import type { ReactNode } from "react";

/**
 * Characters that show nothing and turn or hide what stands around them: a key may hold them, and must not be able to read
 * as another. Joiners (U+200C, U+200D) belong to words and stay.
 */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

/** The same with each unseen character named. What is copied is never this. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (c) => `[U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

export function Foreign({ children, className }: { children: string; className?: string }) {
  return <bdi className={className ? `foreign ${className}` : "foreign"}>{visible(children)}</bdi>;
}

/** Ids, keys and digests. */
export function Mono({ children, clip }: { children: string; clip?: boolean }) {
  return (
    <bdi className={clip ? "mono clip" : "mono foreign"} title={clip ? visible(children) : undefined}>
      {visible(children)}
    </bdi>
  );
}

/** Long keys are cut for one line; their whole stands in the tip and on the page. */
export function shorten(text: string, most = 60): string {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

export function shortDigest(digest: string): string {
  const bare = digest.replace(/^sha256:/, "");
  return bare.slice(0, 12);
}

export function Facts({ children }: { children: ReactNode }) {
  return <dl className="facts">{children}</dl>;
}

export function Fact({ name, children, hint }: { name: string; children: ReactNode; hint?: string }) {
  return (
    <div className="fact">
      <dt title={hint}>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
