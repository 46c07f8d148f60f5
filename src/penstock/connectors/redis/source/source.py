"""A source of streams in Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Records, Source
from penstock.common.serialization import DeserializationSchema
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.type_variables import Record
from penstock.connectors.base.fetching_reader import FetchingReader
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_at_least, checked_function, checked_names, checked_text
from penstock.connectors.redis.server import RedisServer, checked_url
from penstock.connectors.redis.source.deserialization import (
    Deserializer,
    OneField,
    RedisStreamEntry,
    TextFields,
    WholeEntry,
)
from penstock.connectors.redis.source.enumerator import RedisEnumeratorState, RedisStreamEnumerator
from penstock.connectors.redis.source.fetcher import Fetched, Fetcher
from penstock.connectors.redis.source.split import RedisStreamSplit
from penstock.connectors.redis.source.starting_position import RedisStreamPosition
from penstock.connectors.redis.source.streams import Streams


class RedisStreamReader(FetchingReader[Fetcher]):
    """Emit the entries that the fetcher's thread has received, stream by stream."""

    def __init__(
        self, context: ReaderContext, fetch: Callable[[], Fetcher], deserializer: Deserializer, group: str | None
    ) -> None:
        super().__init__(context, reports_positions=group is not None)
        self._fetch = fetch
        self._deserializer = deserializer
        self._group = group
        self._taken = 0
        """How many of the current entries were emitted."""

    def create_fetcher(self) -> Fetcher:
        return self._fetch()

    def key_of(self, split: RedisStreamSplit) -> str:
        return split.stream

    def next_records(self, fetched: Fetched, max_records: int) -> Records:
        split = self._splits[fetched.stream]
        entries = fetched.entries[self._taken : self._taken + max_records]
        self._taken += len(entries)
        is_taken = self._taken >= len(fetched.entries)
        records, timestamps = self._deserializer.records_of(fetched.stream, entries)
        if entries:
            position = entries[-1][0].decode()
            self.advance(split.after_entry(position), position)
        if is_taken:
            self._taken = 0
            self.drop_fetched()
        if is_taken and fetched.is_last:
            self.finish(split)
        return Records(split.split_id, records, timestamps, is_taken and fetched.is_last)

    def report(self, fetcher: Fetcher, positions: dict[Any, Any]) -> None:
        assert self._group is not None
        fetcher.set_group_position(self._group, positions)


_ON_TRIMMED = ("fail", "warn")


class RedisStreamSource(Source[Record], HasFormerBuilder):
    """Read streams of Redis; each is a split.

    Each entry is emitted once, because checkpoints contain the positions. The position of a consumer group only shows
    the progress of the job. Timestamps are those of the entries' ids.
    """

    def __init__(
        self,
        *,
        url: str,
        streams: Sequence[str] = (),
        stream_pattern: str | None = None,
        discovery_interval_ms: int = 30_000,
        starting_position: RedisStreamPosition | None = None,
        bounded: bool = False,
        value_field: str | None = None,
        value_deserializer: DeserializationSchema[Record] | None = None,
        deserializer: Callable[[RedisStreamEntry], Record | None] | None = None,
        type_info: TypeInformation | None = None,
        consumer_group: str | None = None,
        on_trimmed: str = "fail",
        user_name: str | None = None,
        password: str | None = None,
        fetch_size: int = 1000,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument. Either `streams` or `stream_pattern` is required.

        Without a deserializer a record is a dict of all fields of an entry, names and values as text.

        * `url`: the server, `redis://host:6379/0`, with TLS `rediss://…`; redis-py's settings after a `?`.
        * `streams`: the streams with these keys, also those that do not exist yet.
        * `stream_pattern`: all streams whose key matches a pattern of Redis (`orders:*`), also those created later.
        * `discovery_interval_ms`: how often streams that match the pattern are listed.
        * `starting_position`: where a job without state begins. Default: `earliest()`. Streams found later are read
          whole.
        * `bounded`: end with the last entry that each stream has when the job starts.
        * `value_field`, `value_deserializer`: convert the values of one field, by SimpleStringSchema,
          JsonDeserializationSchema and others.
        * `deserializer`: a function from an entry to a record, or None to skip the entry. `type_info`: the type of its
          records.
        * `consumer_group`: set the position of this group with each completed checkpoint, to show the progress of the
          job. The group does not distribute entries, and has no pending ones.
        * `on_trimmed`: `fail`: fail when entries may have been trimmed before they were read. `warn`: log that, and
          continue with the present entries.
        * `user_name`, `password`: the user who connects. Default: from the url, else the user `default`.
        * `fetch_size`: entries of a stream that are read together; ten times as many may wait in memory.
        * `max_retries`: how many connections may fail in a row before the job fails.
        """
        start = RedisStreamPosition.earliest() if starting_position is None else starting_position
        if not isinstance(start, RedisStreamPosition):
            raise TypeError(f"starting_position must be a RedisStreamPosition such as earliest(), got {start!r}")
        if on_trimmed not in _ON_TRIMMED:
            raise ValueError(f"on_trimmed must be 'fail' or 'warn', got {on_trimmed!r}")
        keys = _keys(streams, stream_pattern)
        server = RedisServer(checked_url(url), user_name, password)
        retries = checked_at_least("max_retries", max_retries, 0)
        self._streams = Streams(
            server=server, keys=keys, pattern=stream_pattern, starting=start, is_bounded=bounded, max_retries=retries
        )
        interval_ms = checked_at_least("discovery_interval_ms", discovery_interval_ms, 1)
        self._discovery_interval_ms = interval_ms if stream_pattern is not None and not bounded else None
        self._deserializer = _deserializer_of(value_field, value_deserializer, deserializer, type_info)
        self._group = consumer_group
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        self._fails_on_trimmed = on_trimmed == "fail"

    def describe(self) -> str:
        return f"{self._streams}, {self._streams.server}"

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED with `bounded`, else CONTINUOUS_UNBOUNDED."""
        return Boundedness.BOUNDED if self._streams.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raise ConfigurationError without redis-py, RedisError if it is unavailable, SourceError for other keys."""
        self._streams.check()

    def create_enumerator(self, context: EnumeratorContext) -> RedisStreamEnumerator:
        """Create an enumerator, which lists streams when it starts."""
        return RedisStreamEnumerator(context, self._streams, self._discovery_interval_ms)

    def restore_enumerator(self, context: EnumeratorContext, state: RedisEnumeratorState) -> RedisStreamEnumerator:
        """Create an enumerator that knows the streams of the snapshot."""
        return RedisStreamEnumerator(context, self._streams, self._discovery_interval_ms, state)

    def create_reader(self, context: ReaderContext) -> RedisStreamReader:
        """Create the reader of one subtask."""
        streams = self._streams

        def fetch() -> Fetcher:
            return Fetcher(
                server=streams.server,
                fetch_size=self._fetch_size,
                max_retries=streams.max_retries,
                fails_on_trimmed=self._fails_on_trimmed,
                notify=context.notify_available,
            )

        return RedisStreamReader(context, fetch, self._deserializer, self._group)

    def get_produced_type(self) -> Any:
        """Return the type of the deserializer's records."""
        return self._deserializer.get_produced_type()


def _keys(streams: Sequence[str], pattern: str | None) -> tuple[str, ...]:
    if (pattern is None) == (not streams):
        raise ValueError(
            "a RedisStreamSource needs either streams or stream_pattern, got "
            f"{'neither' if pattern is None else 'both'}"
        )
    if pattern is not None:
        checked_text("stream_pattern", pattern)
        return ()
    return tuple(dict.fromkeys(checked_names("streams", streams)))


def _deserializer_of(
    field: str | None,
    schema: DeserializationSchema | None,
    function: Callable[[RedisStreamEntry], Any] | None,
    type_info: TypeInformation | None,
) -> Deserializer:
    if (field is None) != (schema is None):
        raise ValueError(
            "value_field and value_deserializer must be given together, got only "
            f"{'value_deserializer' if field is None else 'value_field'}"
        )
    if function is not None:
        if schema is not None:
            raise ValueError("a RedisStreamSource accepts value_deserializer or deserializer, got both")
        return WholeEntry(checked_function("deserializer", function, "a RedisStreamEntry"), type_info)
    if type_info is not None:
        raise ValueError(f"type_info needs a deserializer, got {type_info} without one")
    if field is None or schema is None:
        return TextFields()
    if not isinstance(schema, DeserializationSchema):
        raise TypeError(
            f"value_deserializer must be a DeserializationSchema such as SimpleStringSchema(), got {schema!r}"
        )
    return OneField(checked_text("value_field", field), schema)
