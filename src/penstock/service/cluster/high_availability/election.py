"""Run a leadership state machine: pass it its events, and carry out its effects. The rules are in leadership.py.

One thread runs the state machine and watches its time; another one calls the register, which may take any time.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from penstock.common.errors import PenstockError
from penstock.common.job_threads import start_loop, start_thread
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
    TimePassed,
)
from penstock.service.cluster.high_availability.leadership import Leadership, Standing
from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.cluster.high_availability.register import Register
from penstock.service.cluster.high_availability.steady_clock import steady_ms

_TICK_S = 0.1
_STOP_S = 3.0
_log = logging.getLogger(__name__)


class Election:
    """The election of this process. Its callbacks run on threads of its own, and must return soon.

    `leads`: this process leads a term from now on. `extended`: it leads until this time, by `steady_ms`. `deposed`:
    with the reason; the process must stop everything at once.
    """

    def __init__(
        self,
        register: Register,
        leads: Callable[[int], object],
        extended: Callable[[int], object],
        deposed: Callable[[str], object],
    ) -> None:
        self._register = register
        self._leadership = Leadership(register.lease_ms, register.retry_ms)
        self._leads, self._extended, self._deposed = leads, extended, deposed
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._asked: queue.SimpleQueue[Effect] = queue.SimpleQueue()
        self._url = ""
        self._trouble = ""
        self._over = threading.Event()

    def start(self) -> None:
        """Stand for election."""
        start_loop("penstock-election", self._turn, self._broken)
        start_thread("penstock-register", self._carry_out_requests, self._broken)

    def publish(self, url: str) -> None:
        """Set the address of this process for those who look for the leader. The next confirmation publishes it."""
        self._url = url

    def stop(self) -> None:
        """Leave the election. Returns when that is done, or after three seconds."""
        self._events.put(StopRequested(steady_ms()))
        self._over.wait(_STOP_S)

    # Run the state machine.

    def _turn(self) -> bool:
        try:
            event = self._events.get(timeout=_TICK_S)
        except queue.Empty:
            event = TimePassed(steady_ms())
        for effect in self._leadership.handle(event):
            if isinstance(effect, Lead):
                self._extended(effect.until_ms)
                self._leads(effect.term)
            elif isinstance(effect, Extend):
                self._extended(effect.until_ms)
            elif isinstance(effect, StepDown):
                self._deposed(effect.why)
            else:
                self._asked.put(effect)
        return self._leadership.standing is not Standing.ENDED

    def _broken(self, error: BaseException) -> None:
        self._deposed(f"the election failed: {error}")

    # Call the register.

    def _carry_out_requests(self) -> None:
        while not isinstance(effect := self._asked.get(), Resign):
            asked_ms = steady_ms()
            try:
                answer = self._answer(effect, asked_ms)
            except NotLeadingError as error:
                answer = Deposed(steady_ms(), str(error))
            except (OSError, PenstockError) as error:
                answer = Failed(steady_ms(), str(error))
            self._log_trouble(answer)
            self._events.put(answer)
        self._register.close()
        self._over.set()

    def _log_trouble(self, answer: Event) -> None:
        """Once, not at each retry."""
        if isinstance(answer, Looked) and answer.vacant is not None:
            # Reading has succeeded. The next claim or renewal will show whether writing does.
            return
        trouble = answer.how if isinstance(answer, Failed) else ""
        if trouble and not self._trouble:
            _log.warning("cannot reach the register of leaders: %s", trouble)
        elif self._trouble and not trouble:
            _log.info("the register of leaders can be reached again")
        self._trouble = trouble

    def _answer(self, effect: Effect, asked_ms: int) -> Event:
        if isinstance(effect, Claim):
            if self._register.claim(effect.term):
                return Claimed(steady_ms(), effect.term, asked_ms)
            return ClaimLost(steady_ms())
        if isinstance(effect, Confirm):
            self._register.confirm(self._url)
            return Confirmed(steady_ms(), asked_ms)
        assert isinstance(effect, Look), effect
        vacant = self._register.look()
        return Looked(steady_ms(), vacant)
