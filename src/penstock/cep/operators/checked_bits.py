"""The bits of a chunk's events, with the event on which a condition fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.engine.runtime.task.context import OperatorContext

CONDITION = "a condition of the pattern"


def checked_bits(context: OperatorContext, automaton: Automaton[Any], values: Sequence[Any]) -> list[int]:
    """Return the bits of events. Raises UserFunctionError with the event on which a condition fails."""
    try:
        return automaton.bits_of_chunk(values)
    except RAISED as error:
        failed = error
    for value in values:
        for position, holds in enumerate(automaton.tests):
            try:
                bool(holds(value))
            except RAISED as error:
                if automaton.predicates[position] is None:
                    raise context.user_error(error, CONDITION, value) from error
                # The frames of an expression are penstock's: its text says more.
                text = f"{CONDITION}, {automaton.predicate_texts[position]:.200}"
                raise context.user_error(error.with_traceback(None), text, value) from error
    raise context.user_error(failed, CONDITION) from failed


def known_bits(automaton: Automaton[Any], value: Any, failed: Callable[[Any, BaseException], None]) -> int:
    """Return the bits of an event, 0 for conditions that fail on it. `failed` gets the event and the first error."""
    bits, first = 0, None
    for position, holds in enumerate(automaton.tests):
        try:
            bits |= bool(holds(value)) << position
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            first = first or error
    if first is not None:
        failed(value, first)
    return bits
