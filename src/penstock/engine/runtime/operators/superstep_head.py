"""The head of a structured iteration: its records have the number of the superstep as timestamps.

The task drives it (`task/superstep_feedback.py`), which knows when a superstep begins and ends. Event time of the
initial input ends here: in the iteration, a watermark says that a superstep has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.api.output_tag import OutputTag
from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.chunks import Chunk
from penstock.engine.runtime.operators.iteration import FEEDBACK, IterationHead
from penstock.engine.runtime.operators.operator import Input
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.network.channel_log import ChannelLog

SUPERSTEP = "(iteration) superstep"
"""Name of the state with the number of the superstep that comes next."""
RESULT: OutputTag[Any] = OutputTag("(iteration) result")
"""The side output with the last workset: what the last superstep has fed back."""
END: OutputTag[Any] = OutputTag("(iteration) end")
"""A side output without records, by whose end the heads of a later iteration learn that this one has ended."""
EARLIER = 2
"""The input on which a head learns that the iterations before its own have ended."""


class SuperstepRules(msgspec.Struct, frozen=True):
    """When an iteration ends, apart from a superstep that feeds nothing back, and what it aggregates."""

    supersteps_max: int | None = None
    slack: int = 0
    """How many supersteps a head may begin before all senders have ended the one before; 0: bulk-synchronous."""
    aggregators: Mapping[str, Aggregator[Any]] = {}
    criteria: Mapping[str, ConvergenceCriterion[Any]] = {}
    """By the name of the aggregator that each reads."""


class SuperstepPlace(msgspec.Struct, frozen=True):
    """Where an iteration stands between two supersteps: `number` is the next one."""

    number: int
    last: int | None
    """The last superstep, if the heads have decided on it."""
    quiet: tuple[int, int]
    """For how many supersteps nothing was fed back, and nothing was in the stream for termination."""
    aggregates: bytes
    """The results of aggregators that functions may still read, by superstep and name, pickled."""


class _InitialInput:
    """The initial input of a head, whose `initial_input_ended` is called at its end."""

    def __init__(self, head: SuperstepHead) -> None:
        self._head = head
        self.process: Callable[[Any], bool] = head.process

    def watermark(self, timestamp: int) -> bool:
        return True

    def status(self, active: bool) -> bool:
        return True

    def end_input(self) -> bool:
        self._head.input_ended()
        return True


class _EarlierIterations(_InitialInput):
    """The ends of the iterations before this one."""

    def watermark(self, timestamp: int) -> bool:
        self._head.earlier_runs = False
        return True


class _UnboundedInput(_InitialInput):
    """An input of which each superstep takes what has arrived."""

    def __init__(self, head: SuperstepHead) -> None:
        super().__init__(head)
        self.process = lambda chunk: head.hold(chunk)


class _FeedbackInput(_InitialInput):
    def end_input(self) -> bool:
        return True


class SuperstepHead(IterationHead):
    """Emits the records of both inputs, with the number of the superstep as their timestamps.

    `is_unbounded`: its input is; what arrives belongs to the superstep that begins next.
    """

    set_on_submission = ("name", "has_earlier", "reads_outside")

    def __init__(self, name: str, rules: SuperstepRules, is_unbounded: bool = False) -> None:
        super().__init__(name, max_wait_ms=0)
        self.rules = rules
        self.is_unbounded = is_unbounded
        self.has_earlier = False
        """Whether there are iterations before this one, whose results lead to it: they have an input of their own."""
        self.reads_outside = False
        """Whether other operators of the iteration read streams from outside, whose ends the first superstep awaits."""
        self.earlier_runs = True
        """Whether one of them has not ended, if there are any."""
        self._ended_inputs = 0
        self.number = 0
        """The superstep that runs."""
        self.has_ended = False
        """Whether the iteration has ended: then the records of the feedback are its result."""
        self.place: SuperstepPlace | None = None
        """Where the iteration stands, for the snapshot that is being frozen and from the one that was restored."""
        self.initial_input_ended: Callable[[], None] = lambda: None
        """Set by the task, like `hold`."""
        self.hold: Callable[[Chunk], bool] = lambda chunk: True

    def inputs(self) -> Sequence[Input]:
        initial = (_UnboundedInput if self.is_unbounded else _InitialInput)(self)
        return (initial, _FeedbackInput(self), *([_EarlierIterations(self)] if self.has_earlier else []))

    def input_ended(self) -> None:
        """Note that an input from outside has ended. Superstep 0 waits for all."""
        self._ended_inputs += 1
        if self._ended_inputs == 1 + self.has_earlier:
            self.initial_input_ended()

    def process(self, chunk: Chunk) -> bool:
        if self.has_ended:
            return self.output.emit_side(RESULT, chunk.untimed())
        return self.output.emit(chunk.timed(self.number))

    def end_superstep(self) -> bool:
        """Emit that the superstep has ended."""
        return self.output.watermark(self.number)

    def end_iteration(self) -> bool:
        """Emit that no superstep follows."""
        return self.output.watermark(MAX_TIMESTAMP)

    def lists(self) -> list[NamedList]:
        log: ChannelLog | None = self.log
        if log is None or self.place is None:
            return []
        kept: Any = log
        return [
            NamedList(FEEDBACK, Redistribution.UNION, kept),
            NamedList(SUPERSTEP, Redistribution.UNION, [msgspec.structs.astuple(self.place)]),
        ]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists(lists)
        items = [item for one in lists if one.name == SUPERSTEP for item in one.items]
        places = [SuperstepPlace(number, last, tuple(quiet), packed) for number, last, quiet, packed in items]
        self.place = places[0] if places else None
        assert all(place == self.place for place in places), "subtasks of an iteration stand at different supersteps"
