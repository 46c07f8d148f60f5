"""Snapshots that wait for what was in flight when they were frozen: it is logged until their barrier has come.

    begin n            log n begins; its missing channels are those that have not delivered barrier n
    a buffer           goes to each log that misses its channel
    barrier n          log n misses that channel no more; with the last one, once frozen, the snapshot is written
    a later barrier    on a channel that log n misses: n was given up by a task before this one, and can't be complete
    abort n            the same
    log n too large    the same

What a log holds is restored before all input. The way back to the head of an iteration (`feedback.py`) and channels on
which a barrier has overtaken records (`network/unaligned.py`) are logged alike. Source: Carbone et al., "State
Management in Apache Flink" (2017), Algorithm 2; Flink's ChannelStateWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.engine.runtime.decline_reason import DeclineReason
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.task.snapshot import TaskSnapshot


class _OpenLog:
    """A log that is not complete, or whose snapshot is not frozen yet. `missing`: see above."""

    def __init__(self, log: ChannelLog, missing: set[ChannelId]) -> None:
        self.log = log
        self.missing = missing
        self.snapshot: TaskSnapshot | None = None
        self.is_given_up = False
        self.reason: DeclineReason | None = None
        """Why the task itself gave it up."""


class SnapshotLogs:
    """Of one task. `complete` takes a snapshot whose log is complete, and the log.

    `given_up` takes the number of one that is frozen and will not be written. If the task was the first to know, it
    declines the checkpoint for the reason that comes with it.
    """

    def __init__(
        self,
        complete: Callable[[TaskSnapshot, ChannelLog], None],
        given_up: Callable[[int, DeclineReason | None], None],
        bytes_max: int | None = None,
    ) -> None:
        self._complete = complete
        self._given_up = given_up
        self._bytes_max = bytes_max
        self._open: dict[int, _OpenLog] = {}
        self._writing: dict[int, ChannelLog] = {}
        """Logs of snapshots that are being written."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def begin(self, checkpoint_id: int, log: ChannelLog, missing: Iterable[ChannelId]) -> None:
        """The snapshot is about to be frozen; what comes from now on is not in it."""
        self._open[checkpoint_id] = _OpenLog(log, set(missing))

    def log_of(self, checkpoint_id: int) -> ChannelLog | None:
        """The log of a snapshot that is about to be frozen."""
        open_log = self._open.get(checkpoint_id)
        return None if open_log is None else open_log.log

    def misses(self, channel: ChannelId) -> bool:
        """Whether what comes on this channel is logged."""
        return any(channel in open_log.missing for open_log in self._open.values())

    def append(self, channel: ChannelId, buffer: bytes) -> None:
        """A buffer of a channel, in order."""
        for number, open_log in list(self._open.items()):
            if channel in open_log.missing:
                open_log.log.append(buffer)
                if self._bytes_max is not None and open_log.log.bytes > self._bytes_max:
                    self._give_up(number, DeclineReason.ALIGNMENT_LIMIT)

    def barrier(self, channel: ChannelId, checkpoint_id: int) -> None:
        """A barrier has come on a channel. Each channel brings them in order."""
        for number, open_log in sorted(self._open.items()):
            if channel not in open_log.missing:
                continue
            if number < checkpoint_id:
                self._give_up(number, DeclineReason.NEWER)
            elif number == checkpoint_id:
                open_log.missing.discard(channel)
                self._write_if_complete(number)

    def channel_ended(self, channel: ChannelId) -> None:
        """No barrier comes on a channel any more."""
        for number, open_log in sorted(self._open.items()):
            open_log.missing.discard(channel)
            self._write_if_complete(number)

    def frozen(self, snapshot: TaskSnapshot) -> None:
        """The snapshot is frozen: it is written when its log is complete."""
        number = snapshot.checkpoint_id
        open_log = self._open[number]
        if open_log.is_given_up:
            del self._open[number]
            self._given_up(number, open_log.reason)
            return
        open_log.snapshot = snapshot
        self._write_if_complete(number)

    def abort(self, checkpoint_id: int) -> None:
        """A checkpoint was aborted."""
        if checkpoint_id in self._open:
            self._give_up(checkpoint_id, None)

    def snapshot_ended(self, checkpoint_id: int) -> None:
        """The snapshot was written, or could not be: its log is not read any more."""
        log = self._writing.pop(checkpoint_id, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Remove what is on disk."""
        for open_log in self._open.values():
            open_log.log.close()
        for log in self._writing.values():
            log.close()

    def _write_if_complete(self, number: int) -> None:
        open_log = self._open[number]
        if open_log.missing or open_log.snapshot is None or open_log.is_given_up:
            return
        del self._open[number]
        self._writing[number] = open_log.log
        self._complete(open_log.snapshot, open_log.log)

    def _give_up(self, number: int, reason: DeclineReason | None) -> None:
        open_log = self._open[number]
        open_log.log.close()
        open_log.missing.clear()
        if open_log.snapshot is None:
            # It will be frozen: there is no way to take that back, and what sinks prepare then goes with the next one.
            open_log.is_given_up, open_log.reason = True, reason
            return
        del self._open[number]
        self._given_up(number, reason)
