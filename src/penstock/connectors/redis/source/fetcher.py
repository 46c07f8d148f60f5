"""A connection, and the thread that waits for entries. The reader takes them without waiting.

XRANGE reads the entries from the last read one on, including that one: while it exists, no later entry was trimmed,
because streams are trimmed from their beginning.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.base.handover import Handover
from penstock.connectors.base.retries import TransientError
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.redis.server import RedisServer, redis
from penstock.connectors.redis.source.deserialization import Entries
from penstock.connectors.redis.source.split import FIRST, RedisStreamSplit, id_after, order_of
from penstock.connectors.redis.source.streams import as_key, last_id

_BLOCK_S = 1.0
"""The server answers after this time without entries: streams may be deleted, the server unavailable."""
_OVERDUE_S = 10.0


class Arrivals:
    """Wait for entries by XREAD, on a connection of its own, so that other commands do not wait for its answer.

    Methods raise redis-py's errors, or RedisError.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None
        self._connection: Any = None
        self._requested: Mapping[str, str] | None = None
        """The positions of the pending request, or None."""
        self._overdue_at_s = 0.0

    def wait_for(self, positions: Mapping[str, str], handover: Handover[Any]) -> None:
        """Wait until there may be an entry after one of the positions, by stream, or the handover's bell rings."""
        if self._requested is not None and self._requested != positions:
            # A pending request cannot be withdrawn.
            self.close()
        if self._client is None:
            self._client = self._server.connect()
            self._connection = self._client.connection_pool.get_connection()
        if self._requested is None:
            streams = [*map(as_key, positions), *positions.values()]
            self._connection.send_command("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK_S * 1000), "STREAMS", *streams)
            self._requested = dict(positions)
            self._overdue_at_s = time.monotonic() + _BLOCK_S + _OVERDUE_S
        # redis-py has no public name for it.
        if handover.wait(self._connection._sock, max(0.0, self._overdue_at_s - time.monotonic())):
            self._requested = None
            self._connection.read_response()
        elif time.monotonic() >= self._overdue_at_s:
            raise redis().TimeoutError(f"the server did not answer for {_OVERDUE_S:.0f} s")

    def close(self) -> None:
        """Close the connection."""
        client, self._client, self._connection, self._requested = self._client, None, None, None
        if client is not None:
            client.close()


_log = logging.getLogger(__name__)

_BATCHES_MAX = 10
"""The most full batches that wait for the reader, not counting the batch being fetched."""


class Fetched(msgspec.Struct, frozen=True):
    """Entries of a stream, in order, and whether they are the last ones."""

    stream: str
    entries: Entries
    is_last: bool = False


class Fetcher(SplitFetcher[Fetched]):
    """Read the assigned streams. `notify` is called when there are entries to take, or an error.

    After a lost connection, reconnect and continue at the same position. `fetch_size`: how many entries of a stream are
    read together. `fails_on_trimmed`: whether it is an error that entries were trimmed before they were read; otherwise
    a warning.
    """

    def __init__(
        self,
        server: RedisServer,
        fetch_size: int,
        max_retries: int,
        fails_on_trimmed: bool,
        notify: Callable[[], None],
    ) -> None:
        self._entries_max = fetch_size * _BATCHES_MAX
        super().__init__("penstock-redis", self._entries_max, notify, max_retries)
        self._server = server
        self._fetch_size = fetch_size
        self._fails_on_trimmed = fails_on_trimmed
        self._package = redis()
        self._client: Any = None
        self._arrivals = Arrivals(server)
        self._splits: dict[str, RedisStreamSplit] = {}
        """The assigned streams, each at the position up to which it was fetched."""
        self.start()

    def assign(self, splits: Iterable[RedisStreamSplit]) -> None:
        """Read these streams also, from their positions on."""
        added = {split.stream: split for split in splits}
        self.handover.submit(lambda: self._splits.update(added))

    def set_group_position(self, group: str, positions: Mapping[str, str]) -> None:
        """Set the positions of a consumer group, without waiting. Only log a failure."""
        self.handover.submit(lambda: self._set_group_position(group, positions))

    def fetch(self) -> None:
        if not self._splits:
            self.wait_for_room()
            return
        with self._connected() as client:
            if not self._read(client) and self._splits:
                self._arrivals.wait_for({one.stream: one.position for one in self._splits.values()}, self.handover)

    def disconnect(self) -> None:
        client, self._client = self._client, None
        with contextlib.suppress(self._package.RedisError, OSError):
            self._arrivals.close()
            if client is not None:
                client.close()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        if self._client is None:
            self._client = self._server.connect()
            # redis-py would return an entry as a dict, which has only one value of a field that occurs several times.
            self._client.set_response_callback("XRANGE", _as_sent)
        try:
            yield self._client
        except self._package.RedisError as error:
            raise self._server.failed(error) from None

    def _read(self, client: Any) -> bool:
        """Fetch the present entries of each stream. Return False if none of them is new."""
        splits = list(self._splits.values())
        count = max(1, min(self._fetch_size, self._entries_max // len(splits)))
        pipeline = client.pipeline(transaction=False)
        for split in splits:
            start = split.position if split.is_read else id_after(split.position)
            pipeline.xrange(as_key(split.stream), start, split.stop or "+", count + 1)
        has_new = False
        for split, entries in zip(splits, pipeline.execute(raise_on_error=False), strict=True):
            if isinstance(entries, Exception):
                raise self._refused(split, entries)
            is_last = split.stop is not None and len(entries) <= count
            has_new = self._handle(split, entries, is_last) or has_new
        return has_new

    def _handle(self, split: RedisStreamSplit, entries: Entries, is_last: bool) -> bool:
        if split.is_read:
            if entries and entries[0][0].decode() == split.position:
                entries = entries[1:]
            else:
                split = self._position_after_gap(split)
        if not entries and not is_last:
            return False
        if entries:
            self._splits[split.stream] = split.after_entry(entries[-1][0].decode())
        if is_last:
            del self._splits[split.stream]
        self.handover.put(Fetched(split.stream, entries, is_last), len(entries))
        return True

    def _position_after_gap(self, split: RedisStreamSplit) -> RedisStreamSplit:
        """Return where to continue if the last read entry no longer exists. Raise SourceError, or warn."""
        last = last_id(self._client, self._server, split.stream)
        if last == split.position:
            # No later entries were added.
            self._splits[split.stream] = split = split.after_entry(split.position, is_read=False)
            return split
        what = "the stream was deleted" if last is None else "the stream was trimmed, or deleted and created again"
        text = (
            f"the stream '{split.stream}' of Redis at {self._server} no longer has the entry {split.position}, which "
            f"was read last: {what}, and unread entries may be lost"
        )
        if self._fails_on_trimmed:
            raise SourceError(
                f"{text}. Trim by MINID up to the last read entry, or by a larger MAXLEN; to continue with the present "
                "entries, set on_trimmed='warn'"
            )
        _log.warning("%s. Reading continues with the present entries", text)
        is_older = last is None or order_of(last) < order_of(split.position)
        moved = split.after_entry(FIRST if is_older else split.position, is_read=False)
        self._splits[split.stream] = moved
        return moved

    def _refused(self, split: RedisStreamSplit, error: Exception) -> Exception:
        failed = self._server.failed(error, f"the stream '{split.stream}'")
        return failed if isinstance(failed, TransientError) else SourceError(str(failed))

    def _set_group_position(self, group: str, positions: Mapping[str, str]) -> None:
        with self._connected() as client:
            for stream, position in positions.items():
                key = as_key(stream)
                try:
                    try:
                        client.xgroup_setid(key, group, position)
                    except self._package.ResponseError:
                        # The group does not exist yet.
                        client.xgroup_create(key, group, position)
                except self._package.ResponseError as error:
                    _log.warning(
                        "cannot set the position of the group '%s': %s. The job continues, its checkpoints have it",
                        group,
                        self._server.failed(error, f"the stream '{stream}'"),
                    )


def _as_sent(entries: Entries, **options: Any) -> Entries:
    return entries
