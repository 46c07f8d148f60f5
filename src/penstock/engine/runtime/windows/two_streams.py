"""Windows over two streams: each record is tagged with its stream, and the window function takes them apart.

Source: Flink docs, "Joining", Window Join; "Operators", Window CoGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.windows.evaluation import UserEvaluation

if TYPE_CHECKING:
    from penstock.api.windows.window import Window

FIRST, SECOND = 0, 1


def tag_first(value: Any) -> tuple[int, Any]:
    """Tag a record of the first stream."""
    return FIRST, value


def tag_second(value: Any) -> tuple[int, Any]:
    """Tag a record of the second stream."""
    return SECOND, value


class TaggedKey:
    """Selects the key of a tagged record by the key selector of its stream."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.selectors = first, second

    def __call__(self, tagged: tuple[int, Any]) -> Any:
        return self.selectors[tagged[0]](tagged[1])


class CoGroup(UserEvaluation):
    """Calls `co_group(first, second)` with the records of each stream, in the order of arrival."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterable[Any] | None:
        return self.function.call(*_apart(elements))  # type: ignore[no-any-return]


class FlatJoin(UserEvaluation):
    """Calls `join(first, second)` for each pair, and emits its results one by one."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterator[Any]:
        first, second = _apart(elements)
        for one in first:
            for other in second:
                yield from emitted(self.function.call(one, other))


class Join(UserEvaluation):
    """Calls `join(first, second)` for each pair, and emits its result."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterator[Any]:
        first, second = _apart(elements)
        for one in first:
            for other in second:
                yield self.function.call(one, other)


def _apart(elements: list[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    first = [value for tag, value in elements if tag == FIRST]
    return first, [value for tag, value in elements if tag == SECOND]
