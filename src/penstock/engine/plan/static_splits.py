"""Assign the splits of bounded sources before a batched job starts.

In batched mode Spark may run a task twice, and both executions must read the same splits. So the enumerator assigns all
splits beforehand, as if every reader requested one in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.source import Source
from penstock.common.functions.user_calls import outcome_of


class _StaticContext:
    """An EnumeratorContext that records the assigned splits of each subtask."""

    def __init__(self, parallelism: int, now_ms: int) -> None:
        self.parallelism = parallelism
        self._now_ms = now_ms
        self.assigned: list[list[Any]] = [[] for _ in range(parallelism)]
        self.served = [False] * parallelism

    def now_ms(self) -> int:
        return self._now_ms

    def assign_split(self, split: Any, subtask: int) -> None:
        self.assigned[subtask].append(split)

    def signal_no_more_splits(self, subtask: int) -> None:
        self.served[subtask] = True

    def call_async(self, call: Callable[[], Any], handler: Callable[[Any, Exception | None], None]) -> None:
        # A blocking call delays no job: the splits are assigned before it starts.
        handler(*outcome_of(call))


def assign_statically(source: Source[Any], parallelism: int, now_ms: int) -> list[list[Any]]:
    """Return all splits of a bounded source by subtask, as if its readers requested splits in turn.

    `now_ms` is processing time in milliseconds. Raises ValueError if the source does not answer a request.
    """
    context = _StaticContext(parallelism, now_ms)
    enumerator = source.create_enumerator(context)
    try:
        enumerator.start()
        while not all(context.served):
            before = sum(map(len, context.assigned)), sum(context.served)
            for subtask in range(parallelism):
                if not context.served[subtask]:
                    enumerator.handle_split_request(subtask)
            if (sum(map(len, context.assigned)), sum(context.served)) == before:
                raise ValueError(
                    f"{type(source).__name__} is declared bounded, but its enumerator does not answer split requests: "
                    "call assign_split or signal_no_more_splits for each"
                )
    finally:
        enumerator.close()
    return context.assigned
