import type { Schema } from "@lapse/plugin";

export type Stage = "warn" | "breach";

export interface Payload {
  order_id: string;
  merchant_id: string;
  /** Minor units. */
  amount: number;
  /** What the timer is for: the warning, unless it says otherwise. */
  stage?: Stage;
  /** Of this order, where it is another than the type's. */
  term?: string;
}

export interface Config {
  term: string;
  action: "refund" | "penalty";
  notice_url: string;
  refund_url?: string;
  penalty_url?: string;
  /** Percent of the amount. */
  penalty_percent?: number;
  order_url?: string;
}

const DURATION = { type: "string", pattern: "^[1-9][0-9]*(ms|s|m|h|d)$" };
const URL = { type: "string", pattern: "^https?://" };
const ID = { type: "string", minLength: 1, maxLength: 128 };

export const payloadSchema: Schema = {
  type: "object",
  additionalProperties: false,
  required: ["order_id", "merchant_id", "amount"],
  properties: {
    order_id: ID,
    merchant_id: ID,
    amount: { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    stage: { enum: ["warn", "breach"] },
    term: DURATION,
  },
};

export const configSchema: Schema = {
  type: "object",
  additionalProperties: false,
  required: ["term", "action", "notice_url"],
  properties: {
    term: DURATION,
    action: { enum: ["refund", "penalty"] },
    notice_url: URL,
    refund_url: URL,
    penalty_url: URL,
    penalty_percent: { type: "number", exclusiveMinimum: 0, maximum: 100 },
    order_url: URL,
  },
  oneOf: [
    { properties: { action: { const: "refund" } }, required: ["refund_url"] },
    { properties: { action: { const: "penalty" } }, required: ["penalty_url", "penalty_percent"] },
  ],
};
