"""Live queries of a simulated job: each gets one reply, with state that the tasks had between query and reply.

The check reads the state of all tasks directly. The count of a key only grows within an attempt, and the reply comes
from the attempt of the query, or is an error. So a count in the reply lies between the counts at query and reply.
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


class _PendingQuery(NamedTuple):
    query: StateQuery
    counts: Counts | None
    """The counts at the time of the query, or None if the state does not count."""
    hosts: Mapping[SlotId, SlotHost]


class Queries:
    """Make live queries of one driver, and check the replies."""

    def __init__(self, random: Random, trace: Trace) -> None:
        self._random = random
        self._trace = trace
        self._open: dict[int, _PendingQuery] = {}
        self._numbers = itertools.count()
        self.answered = 0
        """How many replies had a state."""

    def ask(self, hosts: Mapping[SlotId, SlotHost], submit: Callable[[StateReadRequested], None]) -> None:
        """Query some keys, or any entries, of a state that some task has."""
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
        query = StateQuery(operator=uid, state=name, keys=keys, limit=random.randint(0, 5))
        number = next(self._numbers)
        self._trace.add("user", f"queries {name} of {uid}: {'any' if keys is None else list(keys)}")
        self._open[number] = _PendingQuery(query, before, hosts)
        submit(StateReadRequested(number, query))

    def reply(self, reply: StateReply) -> None:
        """Check a reply of the job master."""
        pending = self._open.pop(reply.request, None)
        assert pending is not None, f"query {reply.request} got two replies"
        self._trace.add("user", f"query {reply.request}: {reply.error or reply.state}")
        if reply.state is None:
            # Perhaps only tasks of another attempt have registered the state.
            allowed = (
                StateUnavailableError if pending.counts is not None else (StateUnavailableError, StateNotFoundError)
            )
            assert isinstance(reply.error, allowed), f"the query {pending.query} failed: {reply.error!r}"
            return
        self.answered += 1
        if pending.counts is not None:
            _check(pending, reply.state, _counts(pending.hosts, pending.query.operator))

    def job_ended(self) -> None:
        """Check that each query has got its reply."""
        assert not self._open, f"queries without a reply: {list(self._open.values())[:3]}"


def _check(pending: _PendingQuery, state: LiveState, now: Counts) -> None:
    before, query = pending.counts or {}, pending.query
    found = {key: count for entry in state.entries for key, count in entry.value}
    wrong = {key: count for key, count in found.items() if not before.get(key, 0) <= count <= now.get(key, 0)}
    assert not wrong, f"the reply has counts {wrong}, which were {before} at the query and are {now} now"
    missing = {
        key for key in before if key not in found and (state.is_complete if query.keys is None else key in query.keys)
    }
    assert not missing, f"the reply to {query} lacks {missing}, which had counts at the query: {before}"


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
