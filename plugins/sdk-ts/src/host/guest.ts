// The host, as a component reaches it.
import * as http from "lapse:plugin/http@1.0.0";
import * as log from "lapse:plugin/log@1.0.0";
import * as sql from "lapse:plugin/sql@1.0.0";

import type { Count, Read, Send, SendWithSecrets, Transact, Write } from "../wit.ts";

/** An error of the interface arrives within an exception: it is thrown as it is in the interface. */
function bare<A extends unknown[], R>(call: (...given: A) => R): (...given: A) => R {
  return (...given) => {
    try {
      return call(...given);
    } catch (thrown) {
      throw (thrown as { payload?: unknown } | undefined)?.payload ?? thrown;
    }
  };
}

export const send: Send = bare(http.send);
export const sendWithSecrets: SendWithSecrets = bare(http.sendWithSecrets);
export const write: Write = log.write;
export const count: Count = log.count;
export const transact: Transact = bare(sql.transact);
export const read: Read = bare(sql.read);
