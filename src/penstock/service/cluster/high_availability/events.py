"""The events of a process that stands for leader of a cluster, and the effects that they have.

A *term* is one process's time as leader; each has a higher number than those before. The *register* stores who leads:
ZooKeeper, Kubernetes, or a shared folder. All times are milliseconds of the process's own steady clock.
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True):
    """An event. `at_ms`: when it happened."""

    at_ms: int


class TimePassed(Event, frozen=True):
    """Time has passed without another event."""


class Looked(Event, frozen=True):
    """The register was read. `vacant`: the next term if there is no leader; None if there is one."""

    vacant: int | None


class Claimed(Event, frozen=True):
    """The register has this process as the leader of a term. `asked_ms`: when the claim was sent."""

    term: int
    asked_ms: int


class ClaimLost(Event, frozen=True):
    """Another process has claimed the term."""


class Confirmed(Event, frozen=True):
    """The register had this process as the leader at some time after `asked_ms`."""

    asked_ms: int


class Deposed(Event, frozen=True):
    """The register has given the leadership to another process. `how`: in words."""

    how: str


class Failed(Event, frozen=True):
    """The register did not answer: the request may have taken effect or not. `how`: in words."""

    how: str


class StopRequested(Event, frozen=True):
    """The process must stop."""


class Effect(msgspec.Struct, frozen=True, tag=True):
    """An effect, to be carried out by the host."""


class Look(Effect, frozen=True):
    """Read the register. Answered by Looked or Failed."""


class Claim(Effect, frozen=True):
    """Claim a term in the register. Answered by Claimed, ClaimLost or Failed."""

    term: int


class Confirm(Effect, frozen=True):
    """Renew the leadership, and check that it is still this process's. Answered by Confirmed, Deposed or Failed."""


class Lead(Effect, frozen=True):
    """Lead, until `until_ms` unless that is extended."""

    term: int
    until_ms: int


class Extend(Effect, frozen=True):
    """Keep leading, until `until_ms`."""

    until_ms: int


class StepDown(Effect, frozen=True):
    """Stop at once, with everything that was started: another process may lead. `why`: in words."""

    why: str


class Resign(Effect, frozen=True):
    """Leave the register, so that standbys need not wait."""
