"""What calls raise."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from .models import Code, Fault, Problem, Timer
from .types import Unset


class LapseError(Exception):
    """The server refused the call, or could not answer it: an RFC 9457 problem."""

    status: int
    """The HTTP status."""
    code: Code | None
    """What went wrong, for programs; None if what answered was not Lapse, such as a proxy in front of it."""
    errors: Sequence[Fault]
    """Each fault by itself, with its place; empty where there is only one."""
    timer: Timer | None
    """The timer as it is, where the call was about one."""
    request_id: str | None
    retry_after: float | None
    """How long the server asks to wait before the next call, in seconds."""
    problem: Problem | None
    """The whole problem, as the server sent it."""

    def __init__(self, response: httpx.Response, retry_after: float | None) -> None:
        problem = _problem(response)
        self.problem = problem
        self.status = response.status_code
        self.retry_after = retry_after
        self.code = None if problem is None else problem.code
        self.errors = () if problem is None or isinstance(problem.errors, Unset) else tuple(problem.errors)
        self.timer = None if problem is None or isinstance(problem.timer, Unset) else problem.timer
        self.request_id = problem.request_id if problem else response.headers.get("x-request-id")
        said = f"{problem.code}: {problem.detail}" if problem else f"the server answered HTTP {response.status_code}"
        super().__init__(said)


class LapseConnectionError(Exception):
    """No answer came: the server could not be reached, went away, or took too long.

    What became of the call is not known.
    """


def _problem(response: httpx.Response) -> Problem | None:
    if not response.headers.get("content-type", "").startswith("application/problem+json"):
        return None
    try:
        return Problem.from_dict(response.json())
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
