"""How a host makes a call of a split enumerator: on a thread that may wait."""

from __future__ import annotations

from penstock.common.functions.user_calls import outcome_of
from penstock.engine.jobmaster.effects import CallAsync
from penstock.engine.jobmaster.events import CallEnded


def make_call(effect: CallAsync) -> CallEnded:
    """Make the call. What it raises goes to its enumerator's handler."""
    return CallEnded(effect.attempt, effect.number, *outcome_of(effect.call))
