#!/usr/bin/env python3
"""Makes orders.ndjson: 1,000 registrations for the type order-timeout, the same ones each time.

    python3 examples/make_orders.py > examples/orders.ndjson

Most are good: all payment methods, keys of all scripts, delays of seconds to years. One is an exact repeat of an earlier
line, and 32 must be refused, each for a reason of its own (see BAD).
"""

import json
import sys

LINES = 1000
SKUS = ["tea", "coffee", "mug", "kettle", "книга", "茶壶", "قهوة", "☕-set", "sku with spaces", "a/b", "x%20y", "p'q\"r"]
NAMES = ["A", "order:", "заказ-", "订单", "注文 ", "طلب-", "bestellung_ß", "🛒", "\u00e9 composed ", "e\u0301 combining ",
         "a/b/", "50%-", "q?x=1&y=", "#", "'quoted' ", "back\\slash ", "..", "semi;colon "]


class Numbers:
    """A small generator (Knuth's MMIX constants), so that no version of Python makes another file."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def among(self, n, m):
        return n + self.below(m - n + 1)

    def of(self, things):
        return things[self.below(len(things))]


def order(rnd, number):
    items = [{"sku": rnd.of(SKUS), "quantity": rnd.among(1, 5)} for _ in range(rnd.of([1, 1, 1, 2, 2, 3, 5, 8]))]
    total = rnd.among(100, 500_000)
    method = rnd.of(["wallet", "mixed", "online", "online"])
    payload = {"order_id": f"o-{number:04}", "user_id": f"u-{rnd.below(200)}", "total_amount": total,
               "payment_method": method, "items": items}
    if method == "mixed":
        payload["wallet_payment_amount"] = rnd.among(1, total)
    elif method == "wallet" and rnd.below(2):
        payload["wallet_payment_amount"] = total
    elif method == "online" and rnd.below(4) == 0:
        payload["wallet_payment_amount"] = 0
    coupons = rnd.of([0, 0, 0, 1, 1, 2, 4])
    if coupons:
        payload["coupon_ids"] = [f"c-{number:04}-{i}" for i in range(coupons)]
    return payload


def due(rnd):
    """Seconds, minutes, hours, days; the type's default; an instant long past, or far off."""
    which = rnd.below(100)
    if which < 30:
        return {"delay": f"{rnd.among(1, 60)}s"}
    if which < 33:
        return {"delay": f"{rnd.among(0, 999)}ms"}
    if which < 60:
        return {"delay": f"{rnd.among(1, 90)}m"}
    if which < 75:
        return {"delay": f"{rnd.among(1, 72)}h"}
    if which < 82:
        return {"delay": f"{rnd.among(1, 4000)}d"}
    if which < 85:
        return {"delay": f"P{rnd.among(1, 30)}DT{rnd.among(0, 23)}H{rnd.among(0, 59)}M"}
    if which < 88:
        return {"due_at": rnd.of(["2020-02-29T12:00:00Z", "1999-12-31T23:59:59.999+14:00"])}
    if which < 91:
        return {"due_at": rnd.of(["2038-01-19T03:14:08Z", "2106-02-07T06:28:16Z", "9999-12-31T23:59:59.999Z"])}
    return {}


def good(rnd, number):
    line = {"key": f"{rnd.of(NAMES)}{number:04}", "payload": order(rnd, number)}
    line.update(due(rnd))
    if rnd.below(3) == 0:
        line["labels"] = {"shop": rnd.of(["berlin", "北京", "main"]), "channel": rnd.of(["web", "app"])}
    return line


def with_payload(**changes):
    """A line whose payload has these values; None leaves a field out."""

    def make(line):
        line["payload"].update(changes)
        line["payload"] = {k: v for k, v in line["payload"].items() if v is not None}

    return make


def with_line(**changes):
    def make(line):
        line.pop("delay", None)
        line.pop("due_at", None)
        line.update(changes)

    return make


def without_payload(line):
    del line["payload"]


ITEM = {"sku": "tea", "quantity": 1}

BAD = [
    with_payload(order_id=None),
    with_payload(payment_method="cash", wallet_payment_amount=None),
    with_payload(total_amount=-1),
    with_payload(total_amount="1990"),
    with_payload(total_amount=19.9),
    with_payload(total_amount=2**53),
    with_payload(items=[]),
    with_payload(items=[{"sku": "tea", "quantity": 0}]),
    with_payload(items=[{"sku": "tea"}]),
    with_payload(items=[ITEM] * 151),
    with_payload(payment_method="mixed", wallet_payment_amount=None),
    with_payload(payment_method="online", wallet_payment_amount=500),
    with_payload(coupon_ids=["twice", "twice"]),
    with_payload(note="not in the schema"),
    with_payload(user_id=""),
    with_line(payload="not an object"),
    without_payload,
    with_line(key=""),
    with_line(key="k" * 257),
    with_line(key="bell\u0007"),
    with_line(key="two\nlines"),
    with_line(delay="10m", due_at="2030-01-01T00:00:00Z"),
    with_line(delay="ten minutes"),
    with_line(delay="-5s"),
    with_line(delay="1.5h"),
    with_line(delay="P1Y"),
    with_line(delay="9999999d"),
    with_line(due_at="tomorrow"),
    with_line(due_at="10000-01-01T00:00:00Z"),
    with_line(dely="10m"),
    with_line(type="order-timeuot"),
    "{\"key\": \"cut off\", \"payload\": {\"order_id\": ",
]


def main():
    rnd = Numbers(20260301)
    # Every thirtieth line or so is a bad one; line 500 repeats line 1.
    bad_at = {17 + 31 * i: bad for i, bad in enumerate(BAD)}
    first = None
    for number in range(1, LINES + 1):
        line = good(rnd, number)
        first = first or line
        bad = bad_at.get(number)
        if isinstance(bad, str):
            print(bad)
            continue
        if bad:
            bad(line)
        if number == 500:
            line = first
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    main()
