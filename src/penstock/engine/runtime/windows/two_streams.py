"""Windows over two streams: each record is tagged with its stream, and the window function takes them apart.

Source: Flink docs, "Joining", Window Join; "Operators", Window CoGroup.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.windows.evaluation import Evaluation, UserEvaluation

if TYPE_CHECKING:
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.operators.function import UserFunction

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


class JoinKind(enum.Enum):
    """Which records without a partner a join pairs with None: those of the first stream, and of the second."""

    INNER = (False, False)
    LEFT_OUTER = (True, False)
    RIGHT_OUTER = (False, True)
    FULL_OUTER = (True, True)


class Join(UserEvaluation):
    """Calls `join(first, second)` for each pair, and emits its result."""

    def __init__(self, function: UserFunction, kind: JoinKind = JoinKind.INNER) -> None:
        super().__init__(function)
        self._kind = kind

    def pairs(self, elements: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the pairs of a window. At least one stream has a record."""
        first, second = _apart(elements)
        keeps_first, keeps_second = self._kind.value
        return product(first or [None] * keeps_second, second or [None] * keeps_first)

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterator[Any]:
        for one, other in self.pairs(elements):
            yield self.function.call(one, other)


class FlatJoin(Join):
    """Calls `join(first, second)` for each pair, and emits its results one by one."""

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> Iterator[Any]:
        for one, other in self.pairs(elements):
            yield from emitted(self.function.call(one, other))


class SemiJoin(Evaluation):
    """Emits the records of the first stream that have a partner in the second; `anti`: those without."""

    emits_contents = False
    method = "semi_join"

    def __init__(self, anti: bool) -> None:
        self._anti = anti

    def evaluate(self, key: Any, window: Window, elements: list[Any]) -> list[Any]:
        first, second = _apart(elements)
        return first if bool(second) is not self._anti else []


def _apart(elements: list[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    first = [value for tag, value in elements if tag == FIRST]
    return first, [value for tag, value in elements if tag == SECOND]
