/** Warns when 80% of the time to ship an order has passed, and makes good when all of it has. */
import { close, definePlugin, Failure, ms, skip, type Decision, type Expiry, type Task } from "@lapse/plugin";
import { get, post } from "@lapse/plugin/http";

import { configSchema, payloadSchema, type Config, type Payload } from "./schema.ts";

/** How much of the term has passed at the warning. */
const WARN_AT = 0.8;

const plugin = definePlugin<Payload, Config>({
  manifest: {
    name: "shipping-sla",
    version: "1.0.0",
    payloadSchema,
    configSchema,
    exports: { onExpire: { optional: ["http"] }, compensate: { required: ["http"] } },
  },
  onExpire(ctx) {
    const { payload, config } = ctx;
    if (config.order_url !== undefined && isShipped(config.order_url, payload.order_id, ctx.firedAt)) {
      return skip("the order is shipped");
    }
    return payload.stage === "breach" ? breach(payload, config) : warn(ctx);
  },
  // Timers in flight name these kinds: a kind is never renamed.
  compensate: {
    warn: (task) => tell(task.config.notice_url, task),
    refund: (task) => tell(task.config.refund_url, task),
    penalty: (task) => tell(task.config.penalty_url, task),
  },
});

function warn({ key, payload, config, dueAt }: Expiry<Payload, Config>): Decision {
  const { order_id, merchant_id } = payload;
  const term = ms(payload.term ?? config.term);
  const dueBy = dueAt + Math.round(term * (1 - WARN_AT));
  return close({ order_id, stage: "warned" })
    .compensate("warn", { order_id, merchant_id, ship_by: new Date(dueBy).toISOString() })
    .followUp({ type: "shipping-sla", key: `${key}:breach`, payload: { ...payload, stage: "breach" }, dueAt: dueBy })
    .count("shipping_warned");
}

function breach({ order_id, merchant_id, amount }: Payload, config: Config): Decision {
  const due = config.action === "refund" ? amount : Math.floor((amount * (config.penalty_percent ?? 0)) / 100);
  return close({ order_id, stage: "breached", action: config.action, amount: due })
    .compensate(config.action, { order_id, merchant_id, amount: due })
    .count("shipping_breached");
}

function isShipped(url: string, orderId: string, now: number): boolean {
  const answer = get(`${url}/${encodeURIComponent(orderId)}`);
  if (!answer.ok) throw answer.failure("the question for the order", now);
  const { shipped } = answer.json() as { shipped?: unknown };
  if (typeof shipped === "boolean") return shipped;
  throw Failure.permanent("order_unreadable", "the order service's answer has no `shipped` that is true or false");
}

function tell(url: string | undefined, { kind, payload, now }: Task<Config>): { status: number } {
  if (url === undefined) throw Failure.permanent("url_missing", `${kind}_url is not set any more`);
  const answer = post(url, { json: payload });
  // Who has seen the idempotency key answers as before; who says 409 has done it under another.
  if (!answer.ok) throw answer.failure(`the ${kind}`, now);
  return { status: answer.status };
}

export default plugin;
export const { describe, onExpire, onRemind, compensate } = plugin;
