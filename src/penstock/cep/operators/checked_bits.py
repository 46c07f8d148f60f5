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
    """Return the bits of events. An event on which a condition fails meets none, and `failed` gets it and the error."""
    try:
        return automaton.bits_of_chunk(values)
    except NOT_OF_A_VALUE:
        raise
    except RAISED:
        bits = []
        for value in values:
            try:
                bits.append(automaton.bits(value))
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                failed(value, error)
                bits.append(0)
        return bits
