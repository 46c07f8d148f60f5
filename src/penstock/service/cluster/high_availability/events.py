"""What happens to a process that wants to lead a cluster, and what it wants done: its vocabulary.

A *term* is one process's time as leader; each has a higher number than those before. The *register* is where it is
written who leads: ZooKeeper, Kubernetes, or a shared folder. All times are milliseconds of the process's own
steady clock.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that has happened. `at_ms`: when."""

    at_ms: int


class TimePassed(Event, frozen=True):
    """Nothing else has happened for a while."""


class Looked(Event, frozen=True):
    """The register was read. `vacant`: nobody leads, and this would be the next term; None: somebody does."""

    vacant: int | None


class Claimed(Event, frozen=True):
    """The register has this process as the leader of a term. `asked_ms`: when it was asked."""

    term: int
    asked_ms: int


class Outrun(Event, frozen=True):
    """Another process has claimed the term."""


class Confirmed(Event, frozen=True):
    """The register had this process as the leader at some time after `asked_ms`."""

    asked_ms: int


class Deposed(Event, frozen=True):
    """The register has given the lead away. `how`: in words."""

    how: str


class Failed(Event, frozen=True):
    """The register has not answered: what was asked of it may have happened, or not. `how`: in words."""

    how: str


class StopRequested(Event, frozen=True):
    """The process is to end."""


class Effect(msgspec.Struct, frozen=True, tag=True):
    """Something that is to be done."""


class Look(Effect, frozen=True):
    """Read the register. Answered by Looked or Failed."""


class Claim(Effect, frozen=True):
    """Have this process put down as the leader of a term. Answered by Claimed, Outrun or Failed."""

    term: int


class Confirm(Effect, frozen=True):
    """Renew the lead, and find out whether it still is this process's. Answered by Confirmed, Deposed or Failed."""


class Lead(Effect, frozen=True):
    """Lead, until `until_ms` unless that is extended."""

    term: int
    until_ms: int


class Extend(Effect, frozen=True):
    """Go on leading, until `until_ms`."""

    until_ms: int


class StepDown(Effect, frozen=True):
    """End at once, with all that was started: another process may lead. `why`: in words."""

    why: str


class Resign(Effect, frozen=True):
    """Leave the register: whoever stands by need not wait."""
