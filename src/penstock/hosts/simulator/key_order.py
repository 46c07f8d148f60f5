"""Check the order of a keyed function's calls in batched mode: key after key, by time, then the key's timers."""

from __future__ import annotations

from typing import Any

from penstock.api.runtime_context import RuntimeContext
from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.state.keys import encode_key

PARAMETER = "inputs are sorted"
"""The job parameter by which functions know that their inputs are sorted."""


class KeyOrder:
    """Assert the order of calls in one subtask. In pipelined mode the order is undefined, and not asserted."""

    def __init__(self, runtime_context: RuntimeContext) -> None:
        self._asserts = bool(runtime_context.get_job_parameter(PARAMETER, ""))
        self._keys: set[bytes] = set()
        self._key: bytes | None = None
        self._last: tuple[Any, ...] | None = None

    def record(self, ctx: Any) -> None:
        """Check the order of a record."""
        if not self._asserts:
            return
        key, timestamp = encode_key(ctx.get_current_key()), ctx.timestamp()
        if key != self._key:
            assert key not in self._keys, "a key came again"
            self._keys.add(key)
            self._key, self._last = key, None
        # Timers come after all records of their key; records without a timestamp come before those with one.
        place = (0, MIN_TIMESTAMP if timestamp is None else timestamp)
        assert self._last is None or self._last <= place, f"{place} of a key after {self._last}"
        assert ctx.timer_service().current_watermark() == MIN_TIMESTAMP
        self._last = place

    def timer(self, timestamp: int, ctx: Any) -> None:
        """Check the order of a timer that fires."""
        if not self._asserts:
            return
        assert encode_key(ctx.get_current_key()) == self._key, "a timer fired for another key than the last record's"
        domain = ctx.time_domain()
        place = (1 if domain is TimeDomain.EVENT_TIME else 2, timestamp)
        assert self._last is not None
        assert self._last < place, f"{place} of a key after {self._last}"
        assert ctx.timer_service().current_watermark() == MAX_TIMESTAMP
        self._last = place
