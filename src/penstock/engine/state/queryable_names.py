"""What is said of a name under which no keyed state can be asked for."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.errors import StateNotFoundError


def no_queryable_name(asked: str, states: Iterable[tuple[str, str, Iterable[str]]]) -> StateNotFoundError:
    """An error with the names that there are, and how to ask for states whose own name this is.

    `states`: the operator's uid, the state's own name, and its queryable names.
    """
    found = list(states)
    known = ", ".join(map(repr, sorted({name for _, _, names in found for name in names}))) or "none"
    own = sorted({uid for uid, state, _ in found if state == asked})
    text = f"no state is queryable as '{asked}'. There are: {known}"
    if own:
        text += (
            f". '{asked}' is the state's own name in {', '.join(map(repr, own))}, by which it is asked for together "
            f"with its operator: --operator {own[0]} {asked}"
        )
    return StateNotFoundError(text)
