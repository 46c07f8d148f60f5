"""Find the streams of a source, at the start and periodically, and assign them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from penstock.api.source import EnumeratorContext
from penstock.common.stored import stored_as
from penstock.connectors.base.retries import TransientError
from penstock.connectors.base.split_enumerator import OwnedSplitEnumerator
from penstock.connectors.redis.source.split import RedisStreamSplit
from penstock.connectors.redis.source.streams import Streams

_log = logging.getLogger(__name__)


@stored_as("redis-enumerator")
class RedisEnumeratorState(msgspec.Struct, frozen=True):
    """Keys of known streams, splits that are not assigned, and whether streams were listed before."""

    known: frozenset[str]
    pending: list[RedisStreamSplit]
    has_looked: bool


class RedisStreamEnumerator(OwnedSplitEnumerator):
    """Assign streams to subtasks round-robin, in the order in which they were found."""

    def __init__(
        self,
        context: EnumeratorContext,
        streams: Streams,
        discovery_interval_ms: int | None,
        state: RedisEnumeratorState | None = None,
    ) -> None:
        super().__init__(context, state.pending if state is not None else ())
        self._streams = streams
        self._discovery_interval_ms = discovery_interval_ms
        self._known = set(state.known) if state is not None else set()
        self._has_looked = state is not None and state.has_looked
        self._is_listing = False

    def start(self) -> None:
        """List streams, unless this continues from a snapshot."""
        if not self._has_looked:
            self._list_streams(self._on_found)

    def discover(self) -> int | None:
        """List streams that were added."""
        if self._discovery_interval_ms is None:
            return None
        if self._has_looked and not self._is_listing:
            self._list_streams(self._on_found_later)
        return self._context.now_ms() + self._discovery_interval_ms

    def owner_of(self, split: RedisStreamSplit) -> int:
        return split.index % self._context.parallelism

    def more_to_come(self) -> bool:
        return not self._has_looked or self._discovery_interval_ms is not None

    def snapshot_state(self) -> RedisEnumeratorState:
        """Return the known streams and the splits that are not assigned."""
        return RedisEnumeratorState(frozenset(self._known), self.pending(), self._has_looked)

    def _list_streams(self, found: Callable[[list[RedisStreamSplit] | None, Exception | None], None]) -> None:
        self._is_listing = True
        known, at_start = frozenset(self._known), not self._has_looked
        self._context.call_async(lambda: self._streams.new_splits(known, at_start), found)

    def _on_found(self, splits: list[RedisStreamSplit] | None, error: Exception | None) -> None:
        self._is_listing = False
        if splits is None:
            assert error is not None
            raise error
        self._has_looked = True
        self._known.update(split.stream for split in splits)
        self.add_splits(splits)
        if not self.more_to_come():
            self.signal_no_more_splits()

    def _on_found_later(self, splits: list[RedisStreamSplit] | None, error: Exception | None) -> None:
        if isinstance(error, TransientError):
            self._is_listing = False
            _log.warning("cannot list the streams '%s', retrying later: %s", self._streams, error)
            return
        for split in splits or ():
            _log.info("found the stream '%s', reading it from its first entry", split.stream)
        self._on_found(splits, error)
