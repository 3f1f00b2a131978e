"""Lists, page after page, as they are asked for: a large one is never read as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import ParamSpec, Protocol, TypeVar

from .types import Unset

T = TypeVar("T")
P = ParamSpec("P")


class Page(Protocol[T]):
    """What every list answers."""

    items: list[T]
    next_cursor: str | Unset


def paginate(call: Callable[P, Page[T]], *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
    """Everything that a list has: `for timer in paginate(lapse.list_timers, state=["failed"])`."""
    while True:
        page = call(*args, **kwargs)
        yield from page.items
        if isinstance(page.next_cursor, Unset):
            return
        kwargs["cursor"] = page.next_cursor


async def apaginate(call: Callable[P, Awaitable[Page[T]]], *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
    """The same for `AsyncLapse`: `async for timer in apaginate(lapse.list_timers, state=["failed"])`."""
    while True:
        page = await call(*args, **kwargs)
        for item in page.items:
            yield item
        if isinstance(page.next_cursor, Unset):
            return
        kwargs["cursor"] = page.next_cursor
