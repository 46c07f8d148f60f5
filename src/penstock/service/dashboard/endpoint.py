"""A REST endpoint as pages read it: requests of several pages are merged, and sent by threads of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.service.client.rest_client import RestClient

_THREADS = 4
"""Concurrent requests. Those to an endpoint that hangs keep its threads busy, and none of another endpoint."""
_FRESH_S = 0.8
"""Age (seconds) of answers that pages share: they are updated every second."""
_CACHED_ANSWERS_MAX = 2_000
"""The cache is cleared at this number: paths contain ids of jobs, also of ended ones."""

T = TypeVar("T")


class Endpoint:
    """`client`: its requests time out after a few seconds, so that a page can show that the endpoint is silent."""

    def __init__(self, client: RestClient) -> None:
        self.url = client.url
        self._client = client
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"dashboard-{client.url}")
        self._answers: dict[str, tuple[float, asyncio.Future[Any]]] = {}

    async def get(self, path: str, fresh_s: float = _FRESH_S) -> Any:
        """Return the answer at `path`, at most this old. Raises JobError, UnreachableError."""
        now_s = time.monotonic()
        known = self._answers.get(path)
        if known is None or now_s - known[0] > fresh_s or _has_failed(known[1]):
            if len(self._answers) >= _CACHED_ANSWERS_MAX:
                self._answers.clear()
            known = self._answers[path] = (now_s, asyncio.ensure_future(self._by_thread(self._client.get, path)))
        # The other pages that wait for the same answer keep waiting when one page is closed.
        return await asyncio.shield(known[1])

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that changes something. Raises JobError, UnreachableError."""
        return await self._by_thread(self._client.request, method, path, body)

    async def text(self, path: str) -> str:
        """Return a file, as text. Raises JobError, UnreachableError."""
        return (await self._by_thread(self._client.send, "GET", path)).decode(errors="replace")

    def close(self) -> None:
        """Let the threads end after their current requests."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _by_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


def _has_failed(answer: asyncio.Future[Any]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)
