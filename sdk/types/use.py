"""Helpers that `lapse type generate` wrote, of the server's types and of schemas of all sorts."""

import asyncio
import os
import time

from lapse_client import AsyncLapse, Lapse

from sorts import AlertPayload, PayoutPayload
from types_of_server import (
    OrderTimeoutPayload,
    aregister_order_timeout,
    get_order_timeout,
    payload_of_order_timeout,
    register_order_timeout,
    resolve_order_timeout,
)

URL, TOKEN = os.environ["LAPSE_SERVER_URL"], os.environ["LAPSE_TOKEN"]
KEY = f"types-py-{time.time_ns()}"
PAYLOAD: OrderTimeoutPayload = {
    "order_id": "A1",
    "user_id": "u1",
    "total_amount": 1990,
    "payment_method": "online",
    "items": [{"sku": "tea", "quantity": 2}],
}


async def again() -> str:
    async with AsyncLapse(URL, token=TOKEN) as lapse:
        timer = await aregister_order_timeout(lapse, KEY, PAYLOAD, delay="1h", labels={"a": "b"})
        return str(timer.id)


def main() -> None:
    with Lapse(URL, token=TOKEN) as lapse:
        timer = register_order_timeout(lapse, KEY, PAYLOAD, delay="1h", labels={"a": "b"})
        assert asyncio.run(again()) == str(timer.id)
        assert payload_of_order_timeout(get_order_timeout(lapse, KEY))["items"][0]["sku"] == "tea"
        assert resolve_order_timeout(lapse, KEY, reason="paid").state == "resolved"


def typed(lapse: Lapse) -> None:
    """What must not pass the checker."""
    register_order_timeout(lapse, KEY, {"order_id": "A1"})  # type: ignore[typeddict-item]
    PAYLOAD["payment_method"] = "shells"  # type: ignore[typeddict-item]
    alert: AlertPayload = {"rule": {"any_of": [{"metric": "cpu"}]}, "class": 'a"b\\c', "undescribed": 1}
    alert["not-a-name"] = 1  # type: ignore[typeddict-item]
    payout: PayoutPayload = {"amount": 2**60, "iban": "DE"}
    neither: PayoutPayload = {"amount": 1}  # type: ignore[assignment]
    print(payout, neither)


if __name__ == "__main__":
    main()
