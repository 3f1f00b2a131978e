"""When a call is sent again, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

import httpx

MAX_TRIES = 20
MAX_WAIT = 86_400.0
FIRST_WAIT = 0.2


@dataclass(frozen=True)
class Retry:
    """How calls that are safe to repeat are repeated while the server is busy or away."""

    tries: int = 4
    """Attempts in all, the first included; 1 for none again."""
    max_wait: float = 30.0
    """The longest wait before the next attempt, in seconds. If the server asks for more, the error is raised at once."""

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= MAX_TRIES:
            raise ValueError(f"tries is {self.tries}: it takes an integer from 1 to {MAX_TRIES}")
        if not 0 <= self.max_wait <= MAX_WAIT:
            raise ValueError(f"max_wait is {self.max_wait}: it takes seconds, at most {MAX_WAIT:.0f} (a day)")

    def wait(self, tried: int, asked: float | None) -> float | None:
        """What the server asks for, and otherwise doubling, with full jitter; None if it is not to be waited for."""
        if tried >= self.tries or (asked is not None and asked > self.max_wait):
            return None
        if asked is None:
            return min(random.random() * FIRST_WAIT * 2.0 ** (tried - 1), self.max_wait)
        # A little more than is asked for, so that callers who were refused together do not come back together.
        return min(asked + random.random() * FIRST_WAIT, self.max_wait)


def retry_after(response: httpx.Response) -> float | None:
    """`Retry-After`, which is in seconds or a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        # Far more than anything waits, and no more than a float holds.
        return float(min(int(text[:20]), 10**12))
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - datetime.now(timezone.utc)).total_seconds())
