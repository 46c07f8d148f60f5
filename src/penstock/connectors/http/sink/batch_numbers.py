"""Names of batches, by which a server knows one that it has taken already.

A batch that is sent again after a restart has the name that it had, if it is the same batch of the same writer with the
same records. So what a name tells apart is the writer, the number of the batch since its beginning, and the body: cut
at other places the batch is another one, and two batches that are equal by chance have two numbers.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

import msgspec

from penstock.api.sink import SinkContext
from penstock.common.stored import stored_as


@stored_as("http-batches-of-writer")
class BatchesOfWriter(msgspec.Struct, frozen=True, gc=False):
    """In a checkpoint: what the writer's batches are called, and how many there were; of which subtask of how many."""

    name: str
    count: int
    subtask: int
    parallelism: int


class BatchNumbers:
    """Those of one writer. One that goes on as another subtask than it was begins anew, under another name."""

    def __init__(self, context: SinkContext, restored: Sequence[BatchesOfWriter]) -> None:
        self._place = context.subtask, context.parallelism
        own = [one for one in restored if (one.subtask, one.parallelism) == self._place]
        if len(own) == len(restored) == 1:
            self._name, self._count = own[0].name, own[0].count
        else:
            self._count = 0
            # Without a state it may begin again as it has begun.
            begins = f"{context.job_id}/{context.operator_id}/{context.subtask}/{context.parallelism}"
            self._name = uuid.uuid4().hex if context.is_restored else begins

    def next_key(self, body: bytes) -> str:
        """The name of the next batch."""
        digest = hashlib.sha256(f"{self._name}/{self._count}/".encode() + body)
        self._count += 1
        return digest.hexdigest()[:32]

    def snapshot(self) -> BatchesOfWriter:
        """What a checkpoint needs."""
        return BatchesOfWriter(self._name, self._count, *self._place)
