"""The clients: one that waits for its answers, and one for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from .api import AsyncCalls, Calls
from .operations import VERSION
from .retry import Retry

TIMEOUT = 60.0


def _settings(base_url: str, token: str | None, namespace: str | None, timeout: float) -> dict[str, Any]:
    url = httpx.URL(base_url)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"base_url is {base_url!r}: it takes an address such as http://127.0.0.1:8080")
    headers = {"User-Agent": f"lapse-client-python/{VERSION}"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if namespace:
        headers["Lapse-Namespace"] = namespace
    return {"base_url": url, "headers": headers, "timeout": timeout}


class Lapse(Calls):
    """A client of one server: one method for each of the API's calls.

    Args:
        base_url: Where the server is, such as `http://127.0.0.1:8080`.
        token: An API key.
        namespace: Another namespace than the key's own, for all calls; only an admin's key may name one.
        timeout: How long connecting, sending or reading may stand still, in seconds.
        retry: How calls that are safe to repeat are repeated while the server is busy or away.
        httpx_args: More arguments for the `httpx.Client` beneath.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
        retry: Retry | None = None,
        httpx_args: dict[str, Any] | None = None,
    ) -> None:
        self._retry = retry or Retry()
        self._http = httpx.Client(**_settings(base_url, token, namespace, timeout), **(httpx_args or {}))

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class AsyncLapse(AsyncCalls):
    """The same for asyncio: every method is awaited. Its arguments are those of `Lapse`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
        retry: Retry | None = None,
        httpx_args: dict[str, Any] | None = None,
    ) -> None:
        self._retry = retry or Retry()
        self._http = httpx.AsyncClient(**_settings(base_url, token, namespace, timeout), **(httpx_args or {}))

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()
