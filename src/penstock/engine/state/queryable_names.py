"""The error for a name under which no keyed state can be queried."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.errors import StateNotFoundError


def unknown_queryable_name(name: str, states: Iterable[tuple[str, str, Iterable[str]]]) -> StateNotFoundError:
    """Return an error that lists the queryable names, and says how to query states whose own name this is.

    `states`: the operator's uid, the state's own name, and its queryable names.
    """
    found = list(states)
    known = ", ".join(map(repr, sorted({name for _, _, names in found for name in names}))) or "none"
    uids = sorted({uid for uid, state, _ in found if state == name})
    text = f"no state is queryable as '{name}'. Queryable names: {known}"
    if uids:
        text += (
            f". '{name}' is the state's own name in {', '.join(map(repr, uids))}. To query by it, name the operator, "
            f"too: --operator {uids[0]} {name}"
        )
    return StateNotFoundError(text)
