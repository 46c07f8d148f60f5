"""What a task works with: what the host of its slot gives to it, and what its own parts share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.output import USUAL_BUFFERS, BufferSize, Outbox, OutputEdge
from penstock.engine.runtime.network.set_aside import BufferQueue, SpillFile
from penstock.engine.runtime.task.async_calls import OpenEventLoop
from penstock.engine.runtime.task.budget import FIRST_RECORDS, Budget
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.events import Effect
from penstock.engine.runtime.task.inputs import InputChannel, TaskInputs, Work
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.backends.rocksdb.store import Stores
from penstock.engine.state.backends.versioned.store import VersionedStores
from penstock.engine.state.key_groups import KeyGroups


class Environment:
    """One per slot, shared by its tasks.

    `now_ms` is processing time (ms since 1970), `clock` counts nanoseconds that only go forward. `run` is unique for
    each start of the slot, among attempts as well. Without `stores`, keyed state is kept on the heap; without
    `open_spill`, all that alignment sets aside is kept in memory; without `open_event_loop`, asynchronous functions
    can't be called. `buffers`: how large what leaves becomes. `notify`, which any thread may call, gives the task of a
    vertex the event DataAvailable. `first_records`: how many records the first call with a function may take.
    `core_wait_ns`: how long the slot's thread has waited for a core so far, though it had work.
    """

    # fmt: off
    __slots__ = (
        "begun", "budget", "buffers", "clock", "core_wait_ns", "feedback", "first_records", "notify", "now_ms",
        "open_event_loop", "open_spill", "outbox", "run", "stores",
    )
    # fmt: on

    def __init__(
        self,
        now_ms: Callable[[], int],
        clock: Callable[[], int],
        *,
        run: str = "0",
        budget: Budget | None = None,
        stores: Stores | VersionedStores | None = None,
        open_spill: Callable[[], SpillFile] | None = None,
        open_event_loop: OpenEventLoop | None = None,
        notify: Callable[[int], None] = lambda vertex: None,
        buffers: BufferSize = USUAL_BUFFERS,
        first_records: int = FIRST_RECORDS,
        core_wait_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self.now_ms = now_ms
        self.clock = clock
        self.run = run
        self.budget = budget if budget is not None else Budget(clock)
        self.outbox = Outbox(self.budget)
        self.feedback = Outbox(self.budget)
        """What is fed back: it leaves by the channel between slots."""
        self.stores = stores
        self.open_spill = open_spill
        self.open_event_loop = open_event_loop
        self.notify = notify
        self.buffers = buffers
        self.first_records = first_records
        self.core_wait_ns = core_wait_ns
        self.begun: Callable[[InputChannel, int], None] = lambda channel, content: None
        """The slot's: a task has begun with a buffer that brings so many bytes."""


# What the parts of a task share: who it is, its chain, what comes in and goes out, its queue, and whom it asks.


class TaskParts(NamedTuple):
    """Of one task."""

    id: SubtaskId
    info: SubtaskInfo
    vertex: VertexSpec
    level: LevelSpec
    environment: Environment
    key_groups: KeyGroups
    chain: Chain
    edges: Sequence[OutputEdge]
    """Those that leave it."""
    inputs: TaskInputs
    work: deque[Work]
    """What is to be done, in order."""
    counters: TaskCounters
    ask: Callable[[Effect], None]
    """Takes what is requested of the host."""

    def new_queue(self) -> BufferQueue:
        """An empty queue for buffers that wait. What does not fit into its memory goes to disk."""
        return BufferQueue(self.level.alignment_limits.memory_bytes, self.environment.open_spill)
