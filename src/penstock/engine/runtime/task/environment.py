"""The environment of a task, which its slot's host provides, and the objects that the task's parts share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.sender import USUAL_BUFFERS, BufferSize, Outbox
from penstock.engine.runtime.network.set_aside import BufferQueue, SpillFile
from penstock.engine.runtime.task.async_calls import OpenEventLoop
from penstock.engine.runtime.task.budget import FIRST_RECORDS, Budget
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.events import Effect
from penstock.engine.runtime.task.inputs import InputChannel, TaskInputs, Work
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.backends.state_backend import StateBackend
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.memory_budget import MemoryBudget


class Environment:
    """The environment of one slot, shared by its tasks.

    `now_ms` is processing time (ms since 1970), `clock` counts nanoseconds and never goes back. `run` is unique for
    each start of the slot, across attempts. Without `stores`, keyed state is on the heap; without `open_spill`, all
    buffers that alignment sets aside stay in memory; without `open_event_loop`, asynchronous functions can't be called.
    `buffers`: the size of outgoing buffers. `notify`, which any thread may call, gives the task of a vertex the event
    DataAvailable. `first_records`: how many records the first call of a function may process. `core_wait_ns`: how long
    the slot's thread has waited for a core so far while it had work. `memory`: the memory of the slot, by default
    without a limit.
    """

    # fmt: off
    __slots__ = (
        "budget", "buffers", "clock", "core_wait_ns", "feedback", "first_records", "memory", "notify", "now_ms",
        "on_buffer_started", "open_event_loop", "open_spill", "outbox", "run", "stores",
    )
    # fmt: on

    def __init__(
        self,
        now_ms: Callable[[], int],
        clock: Callable[[], int],
        *,
        run: str = "0",
        budget: Budget | None = None,
        stores: StateBackend | None = None,
        open_spill: Callable[[], SpillFile] | None = None,
        open_event_loop: OpenEventLoop | None = None,
        notify: Callable[[int], None] = lambda vertex: None,
        buffers: BufferSize = USUAL_BUFFERS,
        first_records: int = FIRST_RECORDS,
        core_wait_ns: Callable[[], int] = lambda: 0,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.now_ms = now_ms
        self.clock = clock
        self.run = run
        self.budget = budget if budget is not None else Budget(clock)
        self.outbox = Outbox(self.budget)
        self.feedback = Outbox(self.budget)
        """The outbox for feedback, which travels by the channel between slots."""
        self.stores = stores
        self.open_spill = open_spill
        self.open_event_loop = open_event_loop
        self.notify = notify
        self.buffers = buffers
        self.first_records = first_records
        self.core_wait_ns = core_wait_ns
        self.memory = memory if memory is not None else MemoryBudget()
        self.on_buffer_started: Callable[[InputChannel, int], None] = lambda channel, content: None
        """Set by the slot; called when a task starts a buffer, with the buffer's content in bytes."""


class TaskParts(NamedTuple):
    """The objects that the parts of one task share."""

    id: SubtaskId
    info: SubtaskInfo
    vertex: VertexSpec
    level: LevelSpec
    environment: Environment
    key_groups: KeyGroups
    chain: Chain
    edges: Sequence[OutputEdge]
    """The edges that leave the task."""
    inputs: TaskInputs
    work: deque[Work]
    """The queue of work items."""
    counters: TaskCounters
    request: Callable[[Effect], None]
    """Accepts effects for the host."""

    def new_queue(self) -> BufferQueue:
        """Return an empty queue for waiting buffers. Buffers that do not fit into its memory go to disk."""
        return BufferQueue(self.level.alignment_limits.memory_bytes, self.environment.open_spill)
