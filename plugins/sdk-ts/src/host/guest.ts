// The host, as a component reaches it.
import { send as httpSend } from "lapse:plugin/http@1.0.0";
import { write as logWrite } from "lapse:plugin/log@1.0.0";
import { transact as sqlTransact } from "lapse:plugin/sql@1.0.0";

import type { Send, Transact, Write } from "../wit.ts";

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

export const send: Send = bare(httpSend);
export const write: Write = logWrite;
export const transact: Transact = bare(sqlTransact);
