"""Server-sent events, read from the answer of `stream_events`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from .errors import LapseConnectionError

MAX_EVENT = 16 * 2**20
"""The longest event that is taken, in characters."""


@dataclass(frozen=True)
class Event:
    """What a stream tells."""

    event: str
    """What it tells of: hello, stats, timers, compensations, types, missed. There may be more one day."""
    data: Any
    """Its JSON; the document says at `stream_events` what each holds."""


class _Reader:
    """From pieces of text to events. `iter_lines` would also end a line at what JSON may hold, such as U+2028."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> Iterator[Event]:
        # A return that ends the text may be half of a line's end.
        self._text = re.sub(r"\r\n|\r(?!\Z)", "\n", self._text + text)
        *blocks, self._text = self._text.split("\n\n")
        if len(self._text) > MAX_EVENT:
            raise LapseConnectionError(f"an event of the stream is longer than {MAX_EVENT} characters")
        for block in blocks:
            event, data = "message", []
            for line in block.split("\n"):
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    event = value
                elif name == "data":
                    data.append(value)
            # One without data, such as a comment that keeps the connection open, is none.
            if data:
                yield Event(event, json.loads("\n".join(data)))


def events(response: httpx.Response) -> Iterator[Event]:
    """What a stream tells, as it comes: `with lapse.stream_events() as response: for event in events(response)`."""
    reader = _Reader()
    for text in response.iter_text():
        yield from reader.feed(text)


async def aevents(response: httpx.Response) -> AsyncIterator[Event]:
    """The same for `AsyncLapse`: `async with lapse.stream_events() as response: async for event in aevents(response)`."""
    reader = _Reader()
    async for text in response.aiter_text():
        for event in reader.feed(text):
            yield event
