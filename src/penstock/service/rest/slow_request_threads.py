"""Threads for requests that may take minutes, such as savepoints, so that they do not delay all other requests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import to_thread

_MOST = 500
P = ParamSpec("P")
T = TypeVar("T")


async def in_slow_request_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call like Starlette's `run_in_threadpool`, whose forty threads could all be waiting."""
    return await to_thread.run_sync(partial(call, *args, **kwargs), limiter=_limiter())


@cache
def _limiter() -> anyio.CapacityLimiter:
    return anyio.CapacityLimiter(_MOST)
