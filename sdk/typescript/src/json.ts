/** JSON in which integers are exact: one beyond 2^53 is read as a BigInt, and a BigInt is written as an integer. */
import { isInteger, parse as parseLossless, stringify as stringifyLossless } from "lossless-json";

function parseNumber(text: string): number | bigint {
  const value = Number(text);
  return isInteger(text) && !Number.isSafeInteger(value) ? BigInt(text) : value;
}

export function parse(text: string): unknown {
  return parseLossless(text, undefined, { parseNumber });
}

export function stringify(value: unknown): string {
  return stringifyLossless(value) ?? "null";
}
