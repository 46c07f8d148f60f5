"""The part of one process in an election of a leader, as a state machine without I/O.

    state      event                                           next       effects
    waiting    time passes, no request is open                 waiting    Look
    waiting    there is no leader                              claiming   Claim the next term
    claiming   the claim counts                                leading    Lead, until its request's time + the lease
    claiming   the claim counts, but that time has passed      ended      StepDown: it was suspended in between
    claiming   another process was faster, or no answer        waiting    -
    leading    confirmed, by a later request than before       leading    Extend, until its request's time + the lease
    leading    time passes, no request is open                 leading    Confirm
    leading    any event, and its time has passed              ended      StepDown
    leading    the register has another leader                 ended      StepDown
    leading    stop                                            ended      Resign
    waiting,   stop                                            ended      Resign
    claiming
    ended      any event                                       ended      -

The lease counts from the moment at which the request was *sent* to the register. That is before the register answered,
and so before any other process starts to wait: if clocks run at the same speed, this process steps down before another
one leads. This informs observers, and keeps the time short in which two processes run the same jobs. The writes of a
leader are safe without any clock, since they are conditional (`pointers.py`): a process may be suspended between any
two of its steps.

Source: Flink docs, "High Availability"; Gray and Cheriton, "Leases" (1989).
"""

from __future__ import annotations

from enum import Enum, auto

from penstock.service.cluster.high_availability.events import (
    Claim,
    Claimed,
    ClaimLost,
    Confirm,
    Confirmed,
    Deposed,
    Effect,
    Event,
    Extend,
    Failed,
    Lead,
    Look,
    Looked,
    Resign,
    StepDown,
    StopRequested,
)

_CONFIRMATIONS = 8
"""In the time of a lease: several may fail, and the lead stays."""
_LOOKS = 24


class Standing(Enum):
    """Where a process is in the election."""

    WAITING = auto()
    CLAIMING = auto()
    LEADING = auto()
    ENDED = auto()


class Leadership:
    """The leadership of one process. `lease_ms`: how long it leads after the last confirmed request."""

    def __init__(self, lease_ms: int, retry_ms: int | None = None) -> None:
        self.standing = Standing.WAITING
        self.term = 0
        """The term that this process claims or leads."""
        self.until_ms = 0
        """The end of its leadership, unless that is extended."""
        self._lease_ms = lease_ms
        self._look_ms = lease_ms // _LOOKS if retry_ms is None else retry_ms
        self._confirm_ms = lease_ms // _CONFIRMATIONS if retry_ms is None else retry_ms
        self._asked = False
        """Whether a request to the register is open."""
        self._asked_ms: int | None = None
        self._trouble = ""
        """Why the last request failed; empty: it succeeded."""

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event, and return the effects."""
        if self.standing is Standing.ENDED:
            return []
        if isinstance(event, (Looked, Claimed, ClaimLost, Confirmed, Failed)):
            self._asked = False
            self._trouble = event.how if isinstance(event, Failed) else ""
        if isinstance(event, StopRequested):
            self.standing = Standing.ENDED
            return [Resign()]
        if self.standing is Standing.LEADING:
            return self._leads(event)
        if self.standing is Standing.CLAIMING:
            return self._claims(event)
        return self._waits(event)

    def _waits(self, event: Event) -> list[Effect]:
        if isinstance(event, Looked) and event.vacant is not None:
            self.standing, self._asked = Standing.CLAIMING, True
            return [Claim(event.vacant)]
        return self._request_if_due(Look(), event.at_ms, self._look_ms)

    def _claims(self, event: Event) -> list[Effect]:
        if isinstance(event, (ClaimLost, Failed)):
            self.standing = Standing.WAITING
        if not isinstance(event, Claimed):
            return []
        self.term, self.until_ms = event.term, event.asked_ms + self._lease_ms
        if event.at_ms >= self.until_ms:
            return self._step_down(event.at_ms)
        self.standing, self._asked_ms = Standing.LEADING, event.asked_ms
        return [Lead(self.term, self.until_ms)]

    def _leads(self, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        if isinstance(event, Deposed):
            self.standing = Standing.ENDED
            return [StepDown(event.how)]
        if event.at_ms >= self.until_ms:
            # Also if this confirms it: what this process has started has ended with its lead.
            return self._step_down(event.at_ms)
        if isinstance(event, Confirmed) and event.asked_ms + self._lease_ms > self.until_ms:
            self.until_ms = event.asked_ms + self._lease_ms
            effects.append(Extend(self.until_ms))
        return [*effects, *self._request_if_due(Confirm(), event.at_ms, self._confirm_ms)]

    def _request_if_due(self, effect: Effect, at_ms: int, every_ms: int) -> list[Effect]:
        if self._asked or (self._asked_ms is not None and at_ms - self._asked_ms < every_ms):
            return []
        self._asked, self._asked_ms = True, at_ms
        return [effect]

    def _step_down(self, at_ms: int) -> list[Effect]:
        self.standing = Standing.ENDED
        silent_s = (at_ms - self.until_ms + self._lease_ms) / 1000
        why = self._trouble or "this process was suspended, or its machine is very slow"
        return [StepDown(f"its lead was not confirmed for {silent_s:.1f} s: {why}")]
