"""How a call is sent: again while the server is busy or away if that is safe. A problem is raised."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from .errors import LapseConnectionError, LapseError
from .operations import IDEMPOTENT
from .retry import Retry, retry_after
from .types import UNSET, Unset

BUSY = (429, 503)


def path_value(name: str, value: object) -> str:
    """Every URL parser takes `.` and `..` for steps, however they are encoded."""
    text = str(value)
    if text in ("", ".", ".."):
        raise ValueError(
            f"{name} is {text!r}, which cannot stand in a path: find the timer by a list, and use its id"
        )
    return text


def etag(version: int | Unset) -> str | Unset:
    """The text of `If-Match`."""
    return UNSET if isinstance(version, Unset) else f'"{version}"'


def _error(response: httpx.Response) -> LapseError:
    return LapseError(response, retry_after(response))


class _Attempts:
    """What is done about an attempt that failed."""

    def __init__(self, retry: Retry, operation: str) -> None:
        self._retry = retry if operation in IDEMPOTENT else Retry(tries=1)
        self._tried = 0

    def wait(self, error: Exception) -> float:
        """How long to wait before the next one; raises the error if there is none."""
        self._tried += 1
        if isinstance(error, LapseError):
            wait = self._retry.wait(self._tried, error.retry_after) if error.status in BUSY else None
        elif isinstance(error, LapseConnectionError):
            wait = self._retry.wait(self._tried, None)
        else:
            wait = None
        if wait is None:
            raise error
        return wait


class Sender:
    """Sends calls, and waits for their answers."""

    _http: httpx.Client
    _retry: Retry

    def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        attempts = _Attempts(self._retry, operation)
        while True:
            error: Exception
            try:
                response = self._http.request(**request)
                if response.is_success:
                    return response
                error = _error(response)
            except httpx.TransportError as cause:
                error = LapseConnectionError(f"no answer from {self._http.base_url}: {cause}")
                error.__cause__ = cause
            time.sleep(attempts.wait(error))

    @contextmanager
    def _stream(self, request: dict[str, Any]) -> Iterator[httpx.Response]:
        try:
            with self._http.stream(**request) as response:
                if not response.is_success:
                    response.read()
                    raise _error(response)
                yield response
        except httpx.TransportError as cause:
            raise LapseConnectionError(f"the stream from {self._http.base_url} broke off: {cause}") from cause


class AsyncSender:
    """Sends calls, and awaits their answers."""

    _http: httpx.AsyncClient
    _retry: Retry

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx.Response:
        attempts = _Attempts(self._retry, operation)
        while True:
            error: Exception
            try:
                response = await self._http.request(**request)
                if response.is_success:
                    return response
                error = _error(response)
            except httpx.TransportError as cause:
                error = LapseConnectionError(f"no answer from {self._http.base_url}: {cause}")
                error.__cause__ = cause
            await asyncio.sleep(attempts.wait(error))

    @asynccontextmanager
    async def _stream(self, request: dict[str, Any]) -> AsyncIterator[httpx.Response]:
        try:
            async with self._http.stream(**request) as response:
                if not response.is_success:
                    await response.aread()
                    raise _error(response)
                yield response
        except httpx.TransportError as cause:
            raise LapseConnectionError(f"the stream from {self._http.base_url} broke off: {cause}") from cause
