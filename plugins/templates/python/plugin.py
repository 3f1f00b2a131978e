"""Gives up a reservation that nobody has confirmed in time.

`wit_world` is made by componentize-py from the interface: `lapse plugin build` sees to it.
"""

import json
from typing import Optional

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world.imports import http
from wit_world.imports.types import (
    Compensation,
    CompensationSpec,
    Decision,
    Effects,
    Expiry,
    Failure,
    FailureClass,
    Reminder,
    Verdict_Close,
)

NAME = {"type": "string", "minLength": 1, "maxLength": 128}

MANIFEST = {
    "name": "{{name}}",
    "version": "0.1.0",
    "abi": "lapse:plugin@1.0.0",
    "payload_schema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["reservation_id", "item"],
        "properties": {"reservation_id": NAME, "item": NAME},
    },
    "config_schema": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"release_url": {"type": "string", "pattern": "^https?://"}},
    },
    "default_delay": "15m",
    "exports": {"compensate": {"optional": ["http"]}},
}

# Timers in flight name the kinds of compensation: a kind is never renamed.
RELEASE = "release"


def failed(kind: FailureClass, code: str, message: str) -> Err:
    return Err(Failure(kind, code, message, None))


class WitWorld(World):
    def describe(self) -> str:
        return json.dumps(MANIFEST)

    def on_expire(self, ctx: Expiry) -> Decision:
        """Decides, and does nothing: what is to happen is said in the decision, and carried out after it is written."""
        payload, config = json.loads(ctx.payload), json.loads(ctx.config)
        compensations = [CompensationSpec(RELEASE, ctx.payload)] if "release_url" in config else []
        result = json.dumps({"released": payload["item"]})
        return Decision(Verdict_Close(result), Effects(compensations, [], [], []))

    def on_remind(self, ctx: Reminder) -> Optional[str]:
        return None

    def compensate(self, task: Compensation) -> Optional[str]:
        """It may have been carried out before: whoever is called goes by `Idempotency-Key`, which Lapse sends along."""
        url = json.loads(task.config).get("release_url")
        if task.kind != RELEASE or url is None:
            raise failed(FailureClass.PERMANENT, "unknown_kind", f"{task.kind!r} cannot be carried out")
        headers = [http.Header("content-type", "application/json")]
        request = http.Request(http.Method.POST, url, headers, task.payload.encode(), None)
        try:
            answer = http.send(request)
        except Err as error:
            raise failed(FailureClass.DOWNSTREAM, "http", type(error.value).__name__) from error
        if 200 <= answer.status < 300:
            return json.dumps({"status": answer.status})
        again = answer.status in (408, 425, 429) or answer.status >= 500
        kind = FailureClass.DOWNSTREAM if again else FailureClass.PERMANENT
        raise failed(kind, f"http_{answer.status}", f"the release was answered {answer.status}")
