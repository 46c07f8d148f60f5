"""The one table of a job master's effects: what each asks of its host. Spark's host and the simulator's fill it in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.engine.checkpoint.effects import AbortCommittables, Commit, StorageEffect
from penstock.engine.jobmaster.effects import (
    CallAsync,
    CloseResults,
    CountSlots,
    Deliver,
    Deploy,
    Finish,
    JobEffect,
    Reply,
    RestartResults,
    SendToSlot,
    StacksReply,
    StateReply,
    StopAttempt,
)
from penstock.engine.jobmaster.notices import JobNotice
from penstock.engine.jobmaster.results.lanes import ResultLanes


class EffectHandler(ABC):
    """A host of a job master, as far as it carries out effects. `effects.py` says what each effect is."""

    _lanes: ResultLanes
    """Results on the driver."""

    def carry_out_one(self, effect: JobEffect) -> None:
        """Carry out one effect. What it raises is a failure of the host."""
        if isinstance(effect, StorageEffect):
            self._store(effect)
        elif isinstance(effect, JobNotice):
            self._note(effect)
        else:
            METHODS[type(effect)](self, effect)

    @abstractmethod
    def _store(self, effect: StorageEffect) -> None: ...

    @abstractmethod
    def _note(self, notice: JobNotice) -> None: ...

    @abstractmethod
    def _deploy(self, effect: Deploy) -> None: ...

    @abstractmethod
    def _stop_attempt(self, effect: StopAttempt) -> None: ...

    @abstractmethod
    def _call(self, effect: CallAsync) -> None: ...

    @abstractmethod
    def _send(self, effect: SendToSlot) -> None: ...

    @abstractmethod
    def _count_slots(self, effect: CountSlots) -> None: ...

    @abstractmethod
    def _reply(self, reply: Reply) -> None: ...

    @abstractmethod
    def _reply_state(self, effect: StateReply) -> None: ...

    @abstractmethod
    def _reply_stacks(self, effect: StacksReply) -> None: ...

    @abstractmethod
    def _finish(self, effect: Finish) -> None: ...

    def _deliver(self, effect: Deliver) -> None:
        self._lanes.deliver(effect)

    def _restart_results(self, effect: RestartResults) -> None:
        self._lanes.restart(effect)


METHODS: dict[type, Callable[[EffectHandler, Any], None]] = {
    Deploy: lambda handler, effect: handler._deploy(effect),
    StopAttempt: lambda handler, effect: handler._stop_attempt(effect),
    CallAsync: lambda handler, effect: handler._call(effect),
    SendToSlot: lambda handler, effect: handler._send(effect),
    Deliver: lambda handler, effect: handler._deliver(effect),
    RestartResults: lambda handler, effect: handler._restart_results(effect),
    CloseResults: lambda handler, effect: handler._lanes.close(effect),
    Commit: lambda handler, effect: handler._lanes.commit(effect),
    AbortCommittables: lambda handler, effect: handler._lanes.abort(effect),
    CountSlots: lambda handler, effect: handler._count_slots(effect),
    Reply: lambda handler, effect: handler._reply(effect),
    StateReply: lambda handler, effect: handler._reply_state(effect),
    StacksReply: lambda handler, effect: handler._reply_stacks(effect),
    Finish: lambda handler, effect: handler._finish(effect),
}
