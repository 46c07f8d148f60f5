"""A connection, and the thread that waits for entries. The reader takes them without waiting.

What is there is read by XRANGE, from the entry that was read last on, which comes along: as long as it is there,
nothing behind it was trimmed, since streams are trimmed from their beginning.
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

# Waits for entries by XREAD, on a connection of its own, so that nothing else has to wait for its answer.

_BLOCK_S = 1.0
"""After which time the server answers that nothing has come: streams may have been deleted, and it may be away."""
_LATE_S = 10.0


class Arrivals:
    """The methods raise what redis-py raises, or RedisError."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client: Any = None
        self._connection: Any = None
        self._asked_for: Mapping[str, str] | None = None
        """Requests that the server has not answered yet."""
        self._late_s = 0.0

    def wait_for(self, positions: Mapping[str, str], handover: Handover[Any]) -> None:
        """Until there may be an entry behind one of the positions, by stream, or the handover's bell rings."""
        if self._asked_for is not None and self._asked_for != positions:
            # The question can't be taken back.
            self.close()
        if self._client is None:
            self._client = self._server.connect()
            self._connection = self._client.connection_pool.get_connection()
        if self._asked_for is None:
            streams = [*map(as_key, positions), *positions.values()]
            self._connection.send_command("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK_S * 1000), "STREAMS", *streams)
            self._asked_for = dict(positions)
            self._late_s = time.monotonic() + _BLOCK_S + _LATE_S
        # redis-py has no other name for it.
        if handover.wait(self._connection._sock, max(0.0, self._late_s - time.monotonic())):
            self._asked_for = None
            self._connection.read_response()
        elif time.monotonic() >= self._late_s:
            raise redis().TimeoutError(f"the server has not answered for {_LATE_S:.0f} s")

    def close(self) -> None:
        """Leave the server."""
        client, self._client, self._connection, self._asked_for = self._client, None, None, None
        if client is not None:
            client.close()


_log = logging.getLogger(__name__)

_BATCHES_MAX = 10
"""How many full batches wait for the reader at most, and what is fetched at that moment."""


class Fetched(msgspec.Struct, frozen=True):
    """Entries of a stream, in order, and whether they are the last ones."""

    stream: str
    entries: Entries
    is_last: bool = False


class Fetcher(SplitFetcher[Fetched]):
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
        self._entries_max = fetch_size * _BATCHES_MAX
        super().__init__("penstock-redis", self._entries_max, notify, max_retries)
        self._server = server
        self._fetch_size = fetch_size
        self._fails_on_trimmed = fails_on_trimmed
        self._package = redis()
        self._client: Any = None
        self._arrivals = Arrivals(server)
        self._splits: dict[str, RedisStreamSplit] = {}
        """The streams that are read, each at the position up to which it was fetched."""
        self.start()

    def assign(self, splits: Iterable[RedisStreamSplit]) -> None:
        """Read these too, from their positions on."""
        added = {split.stream: split for split in splits}
        self.handover.order(lambda: self._splits.update(added))

    def set_group_position(self, group: str, positions: Mapping[str, str]) -> None:
        """Tell a consumer group how far its streams are read. Does not wait; what fails is logged."""
        self.handover.order(lambda: self._set_group_position(group, positions))

    def fetch(self) -> None:
        if not self._splits:
            self.hold()
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
            # redis-py makes a dict of an entry, which has one value of a field that occurs several times.
            self._client.set_response_callback("XRANGE", _as_sent)
        try:
            yield self._client
        except self._package.RedisError as error:
            raise self._server.failed(error) from None

    def _read(self, client: Any) -> bool:
        """Fetch what is there of each stream. Returns False if there is nothing new in any."""
        splits = list(self._splits.values())
        count = max(1, min(self._fetch_size, self._entries_max // len(splits)))
        pipeline = client.pipeline(transaction=False)
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
        self.handover.put(Fetched(split.stream, entries, is_last), len(entries))
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
            f"the stream '{split.stream}' of Redis at {self._server} no longer has the entry {split.position}, which "
            f"was read last: {what}, and entries that were not read yet may be lost with it"
        )
        if self._fails_on_trimmed:
            raise SourceError(
                f"{text}. Trim by MINID, up to what was read, or by a greater MAXLEN; to continue with what is there, "
                "on_trimmed='warn'"
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
        with self._connected() as client:
            for stream, position in positions.items():
                key = as_key(stream)
                try:
                    try:
                        client.xgroup_setid(key, group, position)
                    except self._package.ResponseError:
                        # There is no such group yet.
                        client.xgroup_create(key, group, position)
                except self._package.ResponseError as error:
                    _log.warning(
                        "the position of the group '%s' was not set: %s. The job goes on, for its checkpoints have it",
                        group,
                        self._server.failed(error, f"the stream '{stream}'"),
                    )


def _as_sent(entries: Entries, **options: Any) -> Entries:
    return entries
