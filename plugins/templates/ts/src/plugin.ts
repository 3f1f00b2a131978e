/** Gives up a reservation that nobody has confirmed in time. */
import { close, definePlugin, Failure } from "@lapse/plugin";
import { post } from "@lapse/plugin/http";

/** What a timer carries. `payloadSchema` says the same: what does not fit it is refused at registration. */
interface Payload {
  reservation_id: string;
  item: string;
}

/** What an operator sets for the type. */
interface Config {
  release_url?: string;
}

const NAME = { type: "string", minLength: 1, maxLength: 128 };

const plugin = definePlugin<Payload, Config>({
  manifest: {
    name: "{{name}}",
    version: "0.1.0",
    payloadSchema: {
      type: "object",
      additionalProperties: false,
      required: ["reservation_id", "item"],
      properties: { reservation_id: NAME, item: NAME },
    },
    configSchema: {
      type: "object",
      additionalProperties: false,
      properties: { release_url: { type: "string", pattern: "^https?://" } },
    },
    defaultDelay: "15m",
    exports: { compensate: { optional: ["http"] } },
  },

  // Decides, and does nothing: what is to happen is said in the decision, and carried out after it is written.
  onExpire({ payload, config }) {
    const decision = close({ released: payload.item });
    return config.release_url === undefined ? decision : decision.compensate("release", payload);
  },

  // Timers in flight name these kinds: a kind is never renamed. A compensation may have been carried out before:
  // whoever is called goes by `Idempotency-Key`, which Lapse sends along.
  compensate: {
    release({ payload, config, now }) {
      if (config.release_url === undefined) throw Failure.permanent("url_missing", "release_url is not set");
      const answer = post(config.release_url, { json: payload });
      if (!answer.ok) throw answer.failure("the release", now);
      return { status: answer.status };
    },
  },
});

export default plugin;
export const { describe, onExpire, onRemind, compensate } = plugin;
