/**
 * JSON without loss: an integer beyond 2^53 becomes a BigInt, and a decimal that a double cannot hold keeps its text.
 */
import { LosslessNumber, isInteger, isLosslessNumber, isSafeNumber, parse as parseLossless, stringify as stringifyLossless } from "lossless-json";

export type Json = null | boolean | number | bigint | string | LosslessNumber | Json[] | { [name: string]: Json };

function number(text: string): number | bigint | LosslessNumber {
  const value = Number(text);
  if (isInteger(text)) return Number.isSafeInteger(value) && String(value) === text ? value : BigInt(text);
  return Number.isFinite(value) && isSafeNumber(text) ? value : new LosslessNumber(text);
}

export function parse(text: string): Json {
  return parseLossless(text, undefined, { parseNumber: number }) as Json;
}

export function stringify(value: unknown, indent?: number): string {
  return stringifyLossless(value, undefined, indent) ?? "null";
}

/** What a number's own text is; anything else is not one. */
export function numberText(value: unknown): string | undefined {
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (isLosslessNumber(value)) return value.value;
  return undefined;
}

/** Whether a schema form, which computes with doubles, would change it. */
export function hasExactNumbers(value: unknown): boolean {
  if (typeof value === "bigint" || isLosslessNumber(value)) return true;
  if (Array.isArray(value)) return value.some(hasExactNumbers);
  if (value && typeof value === "object") return Object.values(value).some(hasExactNumbers);
  return false;
}
