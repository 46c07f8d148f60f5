# ruff: noqa: D102 - these methods are documented by their interfaces
"""The event loop of a harness: it runs calls of asynchronous functions to their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from penstock.engine.runtime.task.async_calls import CallOutcome, Calls, ended_by


class HarnessEventLoop:
    """An `EventLoop` without a thread: `run` runs its calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: dict[int, Coroutine[Any, Any, CallOutcome]] = {}

    def start(self, calls: Calls) -> None:
        self._calls.update(calls)

    def cancel(self, ids: Iterable[int]) -> None:
        for id in ids:
            if (call := self._calls.pop(id, None)) is not None:
                call.close()

    def close(self) -> None:
        self.cancel(list(self._calls))
        self._loop.close()

    def run(self) -> list[CallOutcome]:
        """Run all calls to their ends."""
        if not self._calls:
            return []
        calls, self._calls = self._calls, {}

        async def all_of_them() -> list[CallOutcome | BaseException]:
            return list(await asyncio.gather(*calls.values(), return_exceptions=True))

        ended = zip(calls, self._loop.run_until_complete(all_of_them()), strict=True)
        return [ended_by(id, one) if isinstance(one, BaseException) else one for id, one in ended]
