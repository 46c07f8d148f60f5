"""Live queries of a simulated job: each is answered once, and with what the tasks had between question and answer.

What tasks have is looked up in the tasks themselves, all of them. The count of a key only grows in an attempt, and a
query is answered by the attempt that it was made in, or by an error. So the answer lies between two looks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from penstock.common.errors import StateNotFoundError, StateUnavailableError
from penstock.engine.jobmaster.effects import StateReply
from penstock.engine.jobmaster.events import StateReadRequested
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.vertex import ChainNode
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.live_table import live_tables
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.report import Trace

_COUNT = "seen"
"""The state by which functions count the records of a key."""

Counts = dict[Any, int]


class _Asked(NamedTuple):
    query: StateQuery
    counts: Counts | None
    """When it was asked; None: the state is no count."""
    hosts: Mapping[SlotId, SlotHost]


class Queries:
    """Of one driver."""

    def __init__(self, random: Random, trace: Trace) -> None:
        self._random = random
        self._trace = trace
        self._open: dict[int, _Asked] = {}
        self._numbers = itertools.count()
        self.answered = 0
        """How many were answered with a state."""

    def ask(self, hosts: Mapping[SlotId, SlotHost], hand: Callable[[StateReadRequested], None]) -> None:
        """The user asks for some keys, or any entries, of a state that some task has."""
        random = self._random
        states = sorted({(node.state_id, name) for node, backend in _backends(hosts) for name in live_tables(backend)})
        if not states:
            return
        counts = [state for state in states if state[1] == _COUNT]
        uid, name = random.choice(counts if counts and random.random() < 0.7 else states)
        before = _counts(hosts, uid) if name == _COUNT else None
        keys = None
        if random.random() < 0.7:
            known = sorted(before or ()) or [0]
            keys = tuple(
                random.choice([random.choice(known), random.randrange(6)]) for _ in range(random.randint(1, 4))
            )
        query = StateQuery("", uid, name, keys, random.randint(0, 5))
        number = next(self._numbers)
        self._trace.add("user", f"asks for {name} of {uid}: {'any' if keys is None else list(keys)}")
        self._open[number] = _Asked(query, before, hosts)
        hand(StateReadRequested(number, query))

    def reply(self, reply: StateReply) -> None:
        """The job master has answered."""
        asked = self._open.pop(reply.request, None)
        assert asked is not None, f"query {reply.request} was answered twice"
        self._trace.add("user", f"query {reply.request}: {reply.error or reply.state}")
        if reply.state is None:
            # A state may be one that only tasks of another attempt have asked for.
            allowed = StateUnavailableError if asked.counts is not None else (StateUnavailableError, StateNotFoundError)
            assert isinstance(reply.error, allowed), f"the query {asked.query} failed: {reply.error!r}"
            return
        self.answered += 1
        if asked.counts is not None:
            _check(asked, reply.state, _counts(asked.hosts, asked.query.operator))

    def job_ended(self) -> None:
        """Nothing more comes."""
        assert not self._open, f"queries that were never answered: {list(self._open.values())[:3]}"


def _check(asked: _Asked, state: LiveState, now: Counts) -> None:
    before, query = asked.counts or {}, asked.query
    told = {key: count for entry in state.entries for key, count in entry.value}
    wrong = {key: count for key, count in told.items() if not before.get(key, 0) <= count <= now.get(key, 0)}
    assert not wrong, f"counts {wrong} were told, which were {before} when they were asked for, and are {now}"
    missing = {
        key for key in before if key not in told and (state.is_complete if query.keys is None else key in query.keys)
    }
    assert not missing, f"{missing} was not told of {query}, though it was there: {before}"


def _counts(hosts: Mapping[SlotId, SlotHost], uid: str) -> Counts:
    return {
        key: count
        for node, backend in _backends(hosts)
        if node.state_id == uid
        for row in live_tables(backend)[_COUNT].first(1_000_000)
        for key, count in [row]
    }


def _backends(hosts: Mapping[SlotId, SlotHost]) -> Iterator[tuple[ChainNode, KeyedStateBackend]]:
    for host in hosts.values():
        for task in host.slot.tasks.values() if host.slot is not None else ():
            for node in task.chain.nodes:
                backend = node.operator.keyed_backend()
                if backend is not None:
                    yield node, backend
