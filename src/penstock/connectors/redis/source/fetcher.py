"""A connection, and the thread that waits for entries. The reader takes them without waiting.

What is there is read by XRANGE, from the entry that was read last on, which comes along: as long as it is there,
nothing behind it was trimmed, since streams are trimmed from their beginning. If there is nothing new in any stream,
XREAD waits.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.user_calls import RAISED
from penstock.connectors.base.retries import TransientError
from penstock.connectors.redis.server import RedisServer, redis
from penstock.connectors.redis.source.deserialization import Entries
from penstock.connectors.redis.source.split import FIRST, RedisStreamSplit, id_after, order_of
from penstock.connectors.redis.source.streams import as_key, last_id

_log = logging.getLogger(__name__)

_BLOCK_MS = 100
"""How long the server waits for an entry before the thread looks whether it is to end."""
_BATCHES_MAX = 10
"""How many full batches wait for the reader at most, and what is fetched at that moment."""
_CLOSE_S = 5.0


class Fetched(msgspec.Struct, frozen=True):
    """Entries of a stream, in order, and whether they are the last ones."""

    stream: str
    entries: Entries
    is_last: bool = False


class Fetcher:
    """Reads the streams that it is assigned. `notify` is called when there is something to take, or an error.

    A connection that is lost is made again, and reading goes on where it was. `fetch_size`: how many entries of a
    stream are read at once. `fails_on_trimmed`: whether it is an error that entries were trimmed before they were read;
    else a warning.
    """

    def __init__(
        self,
        server: RedisServer,
        fetch_size: int,
        max_retries: int,
        fails_on_trimmed: bool,
        notify: Callable[[], None],
    ) -> None:
        self._server = server
        self._fetch_size = fetch_size
        self._entries_max = fetch_size * _BATCHES_MAX
        self._max_retries = max_retries
        self._fails_on_trimmed = fails_on_trimmed
        self._notify = notify
        self._package = redis()
        self._client: Any = None
        self._fetched: deque[Fetched] = deque()
        self._waiting = 0
        """How many entries wait for the reader."""
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._orders: deque[Callable[[], None]] = deque()
        self._splits: dict[str, RedisStreamSplit] = {}
        """What is read, each at the position up to which it was fetched."""
        self._tries = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-redis", daemon=True)
        self._thread.start()

    def assign(self, splits: Iterable[RedisStreamSplit]) -> None:
        """Read these too, from their positions on."""
        added = {split.stream: split for split in splits}
        self._order(lambda: self._splits.update(added))

    def take(self) -> Fetched | None:
        """What was fetched next; None: nothing now. Raises what has ended the thread."""
        with self._changed:
            if self._fetched:
                fetched = self._fetched.popleft()
                self._waiting -= len(fetched.entries)
                self._changed.notify()
                return fetched
            if self._error is not None:
                raise self._error
            return None

    def set_group_position(self, group: str, positions: Mapping[str, str]) -> None:
        """Tell a consumer group how far its streams are read. Does not wait; what fails is logged."""
        self._order(lambda: self._set_group_position(group, positions))

    def close(self) -> None:
        """Carry out what was ordered, end the thread and leave the server."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        # It may wait for a server that does not answer; it ends after that by itself.
        self._thread.join(_CLOSE_S)

    def _order(self, order: Callable[[], None]) -> None:
        with self._changed:
            self._orders.append(order)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                try:
                    self._work()
                    self._tries = 0
                except TransientError as error:
                    self._try_later(error)
        except RAISED as error:
            if not self._closing:
                self._error = error if isinstance(error, Exception) else SourceError(repr(error))
                self._notify()
        finally:
            if self._client is not None:
                self._client.close()

    def _wait_for_work(self) -> bool:
        """False: there is nothing left to do, for the reader has ended."""
        with self._changed:
            while not (self._closing or self._orders or self._has_room):
                self._changed.wait()
            return bool(self._orders) or not self._closing

    @property
    def _has_room(self) -> bool:
        return self._waiting < self._entries_max and bool(self._splits)

    def _work(self) -> None:
        if self._client is None:
            self._client = self._server.connect()
        try:
            while self._orders:
                self._orders[0]()
                self._orders.popleft()
            if self._has_room and not self._read() and self._splits and not self._closing:
                waits = {as_key(one.stream): one.position for one in self._splits.values()}
                self._client.xread(waits, count=1, block=_BLOCK_MS)
        except self._package.RedisError as error:
            raise self._server.failed(error) from None

    def _try_later(self, error: TransientError) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(self._package.RedisError, OSError):
                client.close()
        if self._tries >= self._max_retries or self._closing:
            raise SourceError(str(error)) from error
        self._tries += 1
        _log.warning("read on in %d s, for the %d. time of %d: %s", self._tries, self._tries, self._max_retries, error)
        with self._changed:
            if not self._closing:
                self._changed.wait(self._tries)

    def _read(self) -> bool:
        """Fetch what is there of each stream. Returns False if there is nothing new in any."""
        splits = list(self._splits.values())
        count = max(1, min(self._fetch_size, self._entries_max // len(splits)))
        pipeline = self._client.pipeline(transaction=False)
        for split in splits:
            start = split.position if split.is_read else id_after(split.position)
            pipeline.xrange(as_key(split.stream), start, split.stop or "+", count + 1)
        came = False
        for split, entries in zip(splits, pipeline.execute(raise_on_error=False), strict=True):
            if isinstance(entries, Exception):
                raise self._refused(split, entries)
            is_last = split.stop is not None and len(entries) <= count
            came = self._take_over(split, entries, is_last) or came
        return came

    def _take_over(self, split: RedisStreamSplit, entries: Entries, is_last: bool) -> bool:
        if split.is_read:
            if entries and entries[0][0].decode() == split.position:
                entries = entries[1:]
            else:
                split = self._behind_the_gap(split)
        if not entries and not is_last:
            return False
        if entries:
            self._splits[split.stream] = split.behind(entries[-1][0].decode())
        if is_last:
            del self._splits[split.stream]
        with self._changed:
            self._fetched.append(Fetched(split.stream, entries, is_last))
            self._waiting += len(entries)
        self._notify()
        return True

    def _behind_the_gap(self, split: RedisStreamSplit) -> RedisStreamSplit:
        """Where to read on when the entry that was read last is there no more. Raises SourceError, or warns."""
        last = last_id(self._client, self._server, split.stream)
        if last == split.position:
            # Nothing was added behind it.
            self._splits[split.stream] = split = split.behind(split.position, is_read=False)
            return split
        what = "the stream was deleted" if last is None else "the stream was trimmed, or deleted and made again"
        text = (
            f"the stream '{split.stream}' of Redis at {self._server} has the entry {split.position} no more, which was "
            f"read last: {what}, and entries that were not read yet may be lost with it"
        )
        if self._fails_on_trimmed:
            raise SourceError(
                f"{text}. Trim by MINID, up to what was read, or by a greater MAXLEN; to go on with what is there, "
                "set_on_trimmed('warn')"
            )
        _log.warning("%s. What is there is read", text)
        is_older = last is None or order_of(last) < order_of(split.position)
        moved = split.behind(FIRST if is_older else split.position, is_read=False)
        self._splits[split.stream] = moved
        return moved

    def _refused(self, split: RedisStreamSplit, error: Exception) -> Exception:
        failed = self._server.failed(error, f"the stream '{split.stream}'")
        return failed if isinstance(failed, TransientError) else SourceError(str(failed))

    def _set_group_position(self, group: str, positions: Mapping[str, str]) -> None:
        for stream, position in positions.items():
            key = as_key(stream)
            try:
                try:
                    self._client.xgroup_setid(key, group, position)
                except self._package.ResponseError:
                    # There is no such group yet.
                    self._client.xgroup_create(key, group, position)
            except self._package.ResponseError as error:
                _log.warning(
                    "the position of the group '%s' was not set: %s. The job goes on, for its checkpoints have it",
                    group,
                    self._server.failed(error, f"the stream '{stream}'"),
                )
