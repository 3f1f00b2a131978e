"""The installed client against a running server: LAPSE_SERVER_URL, LAPSE_TOKEN, in LAPSE_COMPONENT a plugin's file."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

from lapse_client import (
    UNSET,
    AsyncLapse,
    Lapse,
    LapseConnectionError,
    LapseError,
    Retry,
    Unset,
    __version__,
    aevents,
    apaginate,
    events,
    paginate,
)
from lapse_client.models import (
    ActionRequest,
    CreateKeyRequest,
    PutTypeRequest,
    RegisterTimer,
    RegisterTimerLabels,
    RegisterTimers,
    RescheduleRequest,
    ResolveRequest,
    Stats,
    Timer,
)

URL = os.environ["LAPSE_SERVER_URL"]
TOKEN = os.environ["LAPSE_TOKEN"]
COMPONENT = Path(os.environ["LAPSE_COMPONENT"])
RUN = f"py-{os.getpid()}-{time.time_ns()}"


def order(key: str, delay: str = "1h", **more: Any) -> RegisterTimer:
    payload = {
        "order_id": key,
        "user_id": "u1",
        "total_amount": 1990,
        "payment_method": "online",
        "items": [{"sku": "tea", "quantity": 2}],
    }
    return RegisterTimer(**({"type_": "order-timeout", "key": f"{RUN}-{key}", "payload": payload, "delay": delay} | more))


class Contract(unittest.TestCase):
    def setUp(self) -> None:
        self.lapse = Lapse(URL, token=TOKEN)
        self.addCleanup(self.lapse.close)

    def refused(self, code: str, call: Callable[[], object]) -> LapseError:
        with self.assertRaises(LapseError) as caught:
            call()
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def test_the_package_and_the_server_are_of_one_version(self) -> None:
        self.assertEqual(self.lapse.get_health().version, __version__)

    def test_a_registration_is_idempotent_by_type_and_key(self) -> None:
        first = self.lapse.register_timer(order("same"))
        self.assertEqual(first.state, "scheduled")
        self.assertIsInstance(first.due_at, datetime)
        again = self.lapse.register_timer(order("same"))
        self.assertEqual((again.id, again.version), (first.id, first.version))
        error = self.refused("key_conflict", lambda: self.lapse.register_timer(order("same", "2h")))
        self.assertEqual(error.status, 409)
        assert error.timer is not None and error.problem is not None
        self.assertEqual(error.timer.id, first.id)
        self.assertEqual(error.request_id, error.problem.request_id)

    def test_resolve_wins_before_the_timer_is_due_and_is_too_late_after(self) -> None:
        early = self.lapse.register_timer(order("early"))
        paid = ActionRequest(reason="paid")
        resolved = self.lapse.resolve_timer(early.id, paid, if_version=early.version, idempotency_key="m-1")
        self.assertEqual(resolved.state, "resolved")
        self.assertEqual(self.lapse.resolve_timer(early.id).state, "resolved")
        self.assertEqual(self.lapse.list_timer_events(early.id).items[-1].message_id, "m-1")

        late = self.lapse.register_timer(order("late", "0s"))
        for _ in range(200):
            if self.lapse.get_timer_by_key(late.type_, late.key).state == "closed":
                break
            time.sleep(0.05)
        reason = ResolveRequest(reason="paid", remember=True)
        error = self.refused("too_late", lambda: self.lapse.resolve_timer_by_key(late.type_, late.key, reason))
        assert error.timer is not None
        self.assertEqual(error.timer.state, "closed")

    def test_a_stale_version_is_refused(self) -> None:
        timer = self.lapse.register_timer(order("stale"))
        self.lapse.reschedule_timer(timer.id, RescheduleRequest(due_at=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)))
        cancel = ActionRequest(reason="withdrawn")
        error = self.refused(
            "version_conflict", lambda: self.lapse.cancel_timer(timer.id, cancel, if_version=timer.version)
        )
        self.assertEqual(error.status, 412)

    def test_a_list_is_walked_over_its_pages_each_timer_once(self) -> None:
        labels = RegisterTimerLabels.from_dict({"run": RUN})
        keys = [f"page-{i}" for i in range(7)]
        batch = RegisterTimers(timers=[order(key, labels=labels) for key in keys])
        self.assertEqual([r.status for r in self.lapse.register_timers(batch).results], [201] * 7)
        label = f"run={RUN}"
        listed = paginate(self.lapse.list_timers, label=label, state=["scheduled", "failed"], limit=3)
        seen = [timer.key for timer in listed]
        self.assertEqual(sorted(seen), [f"{RUN}-{key}" for key in keys])

        async def walk() -> list[str]:
            async with AsyncLapse(URL, token=TOKEN) as lapse:
                await lapse.register_timer(order("page-0", labels=labels))
                walked = apaginate(lapse.list_timers, type_="order-timeout", label=label, limit=3)
                return [timer.key async for timer in walked]

        self.assertEqual(asyncio.run(walk()), seen)

    def test_a_problem_is_a_typed_error_with_each_faults_place(self) -> None:
        error = self.refused("payload_invalid", lambda: self.lapse.register_timer(order("bad", payload={"order_id": 7})))
        self.assertEqual(error.status, 422)
        self.assertIn("/payload/order_id", [fault.pointer for fault in error.errors])
        with Lapse(URL, token="nobody") as nobody:
            self.refused("unauthorized", nobody.list_timers)
        self.refused("unknown_type", lambda: self.lapse.register_timer(order("none", type_="no-such-type")))

    def test_a_plugin_is_uploaded_and_keys_and_integers_come_back_as_they_were_given(self) -> None:
        plugin = self.lapse.upload_plugin(COMPONENT.read_bytes())
        self.assertEqual(self.lapse.upload_plugin(COMPONENT.read_bytes()).digest, plugin.digest)
        self.refused("plugin_invalid", lambda: self.lapse.upload_plugin(b"\0\1\2"))
        kind = self.lapse.put_type("free-form", PutTypeRequest(digest=plugin.digest, default_delay="1h"))
        key, payload = f"{RUN}/ä?#% 時", {"do": "close", "big": 2**53 + 1, "huge": 10**30}
        self.lapse.register_timer(RegisterTimer(type_=kind.name, key=key, payload=payload))
        timer = self.lapse.get_timer_by_key(kind.name, key)
        self.assertEqual((timer.key, timer.payload), (key, payload))
        self.assertIs(timer.outcome, UNSET)
        with self.assertRaises(ValueError):
            self.lapse.get_timer_by_key(kind.name, "..")

    def test_a_stream_tells_what_changes_of_the_topics_that_are_asked_for(self) -> None:
        seen = []
        with self.lapse.stream_events(topics=["timers", "stats"]) as response:
            for told in events(response):
                seen.append(told.event)
                if told.event == "hello":
                    self.lapse.register_timer(order("streamed"))
                if told.event == "stats":
                    self.assertIsInstance(Stats.from_dict(told.data).window_ms, int)
                if told.event == "timers" and f"{RUN}-streamed" in [t["key"] for t in told.data["changed"]]:
                    break
        self.assertEqual((seen[0], set(seen)), ("hello", {"hello", "stats", "timers"}))
        with self.assertRaises(LapseError), Lapse(URL, token="nobody").stream_events():
            pass

        async def first() -> str:
            async with AsyncLapse(URL, token=TOKEN) as lapse, lapse.stream_events() as response:
                async for told in aevents(response):
                    return told.event
            return "nothing"

        self.assertEqual(asyncio.run(first()), "hello")

    def test_text_is_read_as_what_it_is(self) -> None:
        self.assertRegex(self.lapse.get_metrics(), r"(?m)^lapse_")


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def scripted(*answers: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers in turn, the last one for ever, and keeps the bodies that it was sent."""
    calls: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            calls.append(self.rfile.read(int(self.headers.get("content-length", 0))))
            answers[min(len(calls), len(answers)) - 1](self)

        do_GET = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def problem(status: int, code: str, retry_after: str | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = {"type": "t", "title": "t", "status": status, "detail": "d", "code": code, "request_id": "r"}
        handler.send_response(status)
        handler.send_header("content-type", "application/problem+json")
        if retry_after is not None:
            handler.send_header("retry-after", retry_after)
        handler.end_headers()
        handler.wfile.write(json.dumps(body).encode())

    return answer


def cut(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


class Again(unittest.TestCase):
    """What is done while a server is busy or away."""

    def done(self) -> Answer:
        with Lapse(URL, token=TOKEN) as lapse:
            timer = lapse.register_timer(order("again")).to_dict()

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(json.dumps(timer).encode())

        return answer

    def test_a_busy_server_is_asked_again_as_it_asks_for(self) -> None:
        with scripted(problem(503, "unavailable", "1"), problem(429, "rate_limited"), cut, self.done()) as (url, calls):
            started = time.monotonic()
            timer: Timer = Lapse(url).register_timer(order("again"))
            self.assertEqual((timer.state, len(calls), len(set(calls))), ("scheduled", 4, 1))
            self.assertGreaterEqual(time.monotonic() - started, 1)

    def test_asyncio_asks_again_too(self) -> None:
        async def register(url: str) -> Timer:
            async with AsyncLapse(url) as lapse:
                return await lapse.register_timer(order("again"))

        with scripted(problem(503, "unavailable", "0"), cut, self.done()) as (url, calls):
            self.assertEqual((asyncio.run(register(url)).state, len(calls)), ("scheduled", 3))

    def test_what_is_not_safe_to_repeat_is_not_repeated(self) -> None:
        with scripted(problem(503, "unavailable", "0")) as (url, calls):
            with self.assertRaises(LapseError):
                Lapse(url, retry=Retry(tries=2)).list_timers()
            self.assertEqual(len(calls), 2)
            with self.assertRaises(LapseError):
                Lapse(url).create_key(CreateKeyRequest(name="k", role="reader"))
            self.assertEqual(len(calls), 3)

    def test_a_wait_that_is_too_long_is_not_begun(self) -> None:
        with scripted(problem(503, "unavailable", "9" * 400)) as (url, calls):
            with self.assertRaises(LapseError) as caught:
                Lapse(url).list_timers()
            assert caught.exception.retry_after is not None
            self.assertGreater(caught.exception.retry_after, 2**31)
            self.assertEqual(len(calls), 1)
        for tries, max_wait in ((0, 1.0), (1, float("inf")), (1, -1.0)):
            with self.assertRaises(ValueError):
                Retry(tries, max_wait)

    def test_a_stream_is_read_whatever_its_pieces_and_one_that_breaks_off_is_an_error(self) -> None:
        text = 'event: a\r\ndata: {"big":9007199254740993,\r\ndata: "text":"é\u2028時"}\r\n\r\n: ping\n\ndata:1\n\n'

        def told(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream")
            # It promises more than it sends.
            handler.send_header("content-length", "100000")
            handler.end_headers()
            for byte in text.encode():
                handler.wfile.write(bytes([byte]))
                handler.wfile.flush()
            handler.close_connection = True

        seen = []
        with scripted(told) as (url, _), self.assertRaises(LapseConnectionError), Lapse(url).stream_events() as response:
            for event in events(response):
                seen.append((event.event, event.data))
        self.assertEqual(seen, [("a", {"big": 2**53 + 1, "text": "é\u2028時"}), ("message", 1)])

    def test_a_server_that_is_away_is_an_error_of_its_own(self) -> None:
        with self.assertRaises(LapseConnectionError):
            Lapse("http://127.0.0.1:1", retry=Retry(tries=1)).list_timers()
        with self.assertRaises(ValueError):
            Lapse("nowhere")


def typed(lapse: Lapse) -> None:
    """What must not pass the checker: each line is an error of its own, which it has to find."""
    RegisterTimer(type_="t", payload={})  # type: ignore[call-arg]
    lapse.list_timers(state=["asleep"])  # type: ignore[list-item]
    lapse.get_timer()  # type: ignore[call-arg]
    paginate(lapse.list_timers, state=["asleep"])  # type: ignore[list-item]
    print(lapse.get_health().nothing)  # type: ignore[attr-defined]
    settled: datetime | Unset = lapse.get_timer(UUID(int=1)).settled_at
    print(settled)


if __name__ == "__main__":
    unittest.main()
