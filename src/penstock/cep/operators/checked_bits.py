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
        for value in values:
            try:
                automaton.bits(value)
            except RAISED as again:
                raise context.user_error(again, CONDITION, value) from again
        raise context.user_error(error, CONDITION) from error


def bits_where_known(
    automaton: Automaton[Any], values: Sequence[Any], failed: Callable[[Any, BaseException], None]
) -> list[int]:
    """Return the bits of events. A condition that fails on an event does not hold: see `known_bits`."""
    try:
        return automaton.bits_of_chunk(values)
    except NOT_OF_A_VALUE:
        raise
    except RAISED:
        return [known_bits(automaton, value, failed) for value in values]


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
