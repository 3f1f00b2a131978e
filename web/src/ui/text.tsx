/** Text that somebody else wrote: text nodes only, isolated from our own direction, wrapping anywhere. */
import type { ReactNode } from "react";

export function Foreign({ children, className }: { children: string; className?: string }) {
  return <bdi className={className ? `foreign ${className}` : "foreign"}>{children}</bdi>;
}

/** Ids, keys and digests. */
export function Mono({ children, clip }: { children: string; clip?: boolean }) {
  return (
    <bdi className={clip ? "mono clip" : "mono foreign"} title={clip ? children : undefined}>
      {children}
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
