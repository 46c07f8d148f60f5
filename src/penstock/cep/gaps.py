"""Gaps: what becomes of a partial match when an event can no longer be taken, because too much time has passed.

A gap limits the time between the event taken before and a step's event. It is part of the step's TAKE edge, which a
partial match reaches from the state of the step, and by PROCEED from states in front of it. So each state in front of
gaps changes when the first of them ends: to a copy in which the steps with that gap take and pass over nothing, and
greedy loops with it leave all events to the next step. If nothing is left to do, the partial match has timed out.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.cep.graph import Action, Kind, State

_FIXED = (Kind.FINAL, Kind.STOP, Kind.PENDING)


def close_gaps(start: State) -> list[State]:
    """Decide for each state what becomes of it when gaps end; return all states, the start first."""
    done: set[State] = set()
    while undone := [state for state in reachable(start) if state not in done]:
        for state in undone:
            done.add(state)
            if state.kind is Kind.PENDING:
                state.closes_ms = state.gap_ms
            elif state.kind not in _FIXED:
                _close(state)
    return reachable(start)


def reachable(start: State) -> list[State]:
    """Return the states in the order in which they are found, the start first."""
    found = {start: None}
    waiting = [start]
    while waiting:
        state = waiting.pop(0)
        further = [edge.target for edge in state.edges] + ([state.closed] if state.closed else [])
        for target in further:
            if target not in found:
                found[target] = None
                waiting.append(target)
    return list(found)


def _close(state: State) -> None:
    lengths = [length for before in proceeded(state) for length in (before.gap_ms, before.release_ms) if length]
    if not lengths:
        return
    state.closes_ms = min(lengths)
    closed = _closed(state, state.closes_ms, {})
    if _goes_on(closed):
        state.closed = closed
    elif state.twin_of is not None:
        state.discarded = _goes_on(_closed(state.twin_of, state.closes_ms, {}))


def _closed(state: State, elapsed_ms: int, copies: dict[State, State]) -> State:
    """Return the state as it is `elapsed_ms` after the event taken before."""
    if state.kind in _FIXED:
        return state
    if state in copies:
        return copies[state]
    released = state.release_ms is not None and state.release_ms <= elapsed_ms
    origin = state.unrestricted if released and state.unrestricted is not None else state
    over = origin.gap_ms is not None and origin.gap_ms <= elapsed_ms
    copy = copies[state] = State(f"{state.name}|", origin.step, gap_ms=None if over else origin.gap_ms)
    if not released:
        copy.unrestricted, copy.release_ms = state.unrestricted, state.release_ms
    for edge in origin.edges:
        if edge.action is Action.PROCEED:
            copy.add(edge.action, _closed(edge.target, elapsed_ms, copies), edge.guard)
        elif not over:
            copy.add(edge.action, edge.target, edge.guard)
    return copy


def proceeded(state: State) -> Iterator[State]:
    """Return the states whose edges apply to a partial match in the state: what PROCEED reaches."""
    seen = {state}
    waiting = [state]
    while waiting:
        current = waiting.pop()
        if current.kind in _FIXED:
            continue
        yield current
        for edge in current.edges:
            if edge.action is Action.PROCEED and edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)


def _goes_on(state: State) -> bool:
    """Return whether a partial match in the state may take or wait for an event."""
    seen = {state}
    waiting = [state]
    while waiting:
        current = waiting.pop()
        for edge in current.edges:
            if edge.target.kind is Kind.STOP:
                continue
            if edge.action is not Action.PROCEED or edge.target.kind is Kind.PENDING:
                return True
            if edge.target not in seen:
                seen.add(edge.target)
                waiting.append(edge.target)
    return False
