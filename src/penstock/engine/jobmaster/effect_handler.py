"""Dispatch a JobMaster's effects to the methods of its host: Spark's or the simulator's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.common.functions.user_calls import outcome_of
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
from penstock.engine.jobmaster.events import CallEnded
from penstock.engine.jobmaster.notices import JobNotice
from penstock.engine.jobmaster.results.lanes import ResultLanes


class EffectHandler(ABC):
    """The host of a JobMaster, which implements a method for each effect of `effects.py`."""

    lanes: ResultLanes
    """Deliver and commit results on the driver."""

    def carry_out(self, effect: JobEffect) -> None:
        """Carry out one effect. An error is a failure of the host."""
        if isinstance(effect, StorageEffect):
            self.store(effect)
        elif isinstance(effect, JobNotice):
            self.note(effect)
        else:
            METHODS[type(effect)](self, effect)

    @abstractmethod
    def store(self, effect: StorageEffect) -> None:
        """Carry out a storage operation of a checkpoint."""

    @abstractmethod
    def note(self, notice: JobNotice) -> None:
        """Log a notice."""

    @abstractmethod
    def deploy(self, effect: Deploy) -> None:
        """Start the query of an attempt."""

    @abstractmethod
    def stop_attempt(self, effect: StopAttempt) -> None:
        """Stop the query of an attempt."""

    @abstractmethod
    def call_async(self, effect: CallAsync) -> None:
        """Make a call of a split enumerator on another thread."""

    @abstractmethod
    def send_to_slot(self, effect: SendToSlot) -> None:
        """Send a message to a slot."""

    @abstractmethod
    def count_slots(self, effect: CountSlots) -> None:
        """Count the slots that Spark has for the job."""

    @abstractmethod
    def reply(self, effect: Reply) -> None:
        """Answer a user's request."""

    @abstractmethod
    def reply_state(self, effect: StateReply) -> None:
        """Answer a live query of state."""

    @abstractmethod
    def reply_stacks(self, effect: StacksReply) -> None:
        """Answer a request for samples of stacks."""

    @abstractmethod
    def finish(self, effect: Finish) -> None:
        """End the job."""

    def deliver(self, effect: Deliver) -> None:
        """Deliver results to their sink."""
        self.lanes.deliver(effect)

    def restart_results(self, effect: RestartResults) -> None:
        """Prepare the sinks of a region for its next attempt."""
        self.lanes.restart(effect)


METHODS: dict[type, Callable[[EffectHandler, Any], None]] = {
    Deploy: lambda handler, effect: handler.deploy(effect),
    StopAttempt: lambda handler, effect: handler.stop_attempt(effect),
    CallAsync: lambda handler, effect: handler.call_async(effect),
    SendToSlot: lambda handler, effect: handler.send_to_slot(effect),
    Deliver: lambda handler, effect: handler.deliver(effect),
    RestartResults: lambda handler, effect: handler.restart_results(effect),
    CloseResults: lambda handler, effect: handler.lanes.close(effect),
    Commit: lambda handler, effect: handler.lanes.commit(effect),
    AbortCommittables: lambda handler, effect: handler.lanes.abort(effect),
    CountSlots: lambda handler, effect: handler.count_slots(effect),
    Reply: lambda handler, effect: handler.reply(effect),
    StateReply: lambda handler, effect: handler.reply_state(effect),
    StacksReply: lambda handler, effect: handler.reply_stacks(effect),
    Finish: lambda handler, effect: handler.finish(effect),
}


def make_call(effect: CallAsync) -> CallEnded:
    """Make the call. Its enumerator's handler gets the result or the error."""
    return CallEnded(effect.attempt, effect.number, *outcome_of(effect.call))
