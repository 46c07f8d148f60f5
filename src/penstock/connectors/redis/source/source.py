"""RedisStreamSource and its builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.serialization import DeserializationSchema
from penstock.common.typeinfo import TypeInformation
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.redis.server import RedisServer, checked_url
from penstock.connectors.redis.source.deserialization import (
    Deserializer,
    OneField,
    RedisStreamEntry,
    TextFields,
    WholeEntry,
)
from penstock.connectors.redis.source.enumerator import RedisEnumeratorState, RedisStreamEnumerator
from penstock.connectors.redis.source.fetcher import Fetcher
from penstock.connectors.redis.source.reader import RedisStreamReader
from penstock.connectors.redis.source.starting_position import RedisStreamPosition
from penstock.connectors.redis.source.streams import Streams

_DISCOVERY_MS = 30_000
_FETCH_SIZE = 1000
_ON_TRIMMED = ("fail", "warn")


class RedisStreamSource(Source[Any]):
    """Reads streams of Redis; each is a split. Made by `RedisStreamSource.builder()`.

    Each entry is emitted once: positions are in the checkpoints. The position of a consumer group only tells others
    how far the job is. Timestamps are those of the entries' ids.
    """

    def __init__(
        self,
        streams: Streams,
        discovery_interval_ms: int | None,
        deserializer: Deserializer,
        group: str | None,
        fetch_size: int,
        fails_on_trimmed: bool,
    ) -> None:
        self._streams = streams
        self._discovery_interval_ms = discovery_interval_ms
        self._deserializer = deserializer
        self._group = group
        self._fetch_size = fetch_size
        self._fails_on_trimmed = fails_on_trimmed

    @staticmethod
    def builder() -> RedisStreamSourceBuilder:
        """Start to build one."""
        return RedisStreamSourceBuilder()

    def describe(self) -> str:
        return f"{self._streams}, {self._streams.server}"

    def get_boundedness(self) -> Boundedness:
        """BOUNDED if the builder was told so by `set_bounded`."""
        return Boundedness.BOUNDED if self._streams.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def validate(self) -> None:
        """Raises ConfigurationError without redis-py, RedisError if the server is away, SourceError for other keys."""
        self._streams.check()

    def create_enumerator(self, context: EnumeratorContext) -> RedisStreamEnumerator:
        """Create an enumerator, which looks for streams when it starts."""
        return RedisStreamEnumerator(context, self._streams, self._discovery_interval_ms)

    def restore_enumerator(self, context: EnumeratorContext, state: RedisEnumeratorState) -> RedisStreamEnumerator:
        """Create one that knows the streams that were found before."""
        return RedisStreamEnumerator(context, self._streams, self._discovery_interval_ms, state)

    def create_reader(self, context: ReaderContext) -> RedisStreamReader:
        """Create the reader of one subtask."""
        streams = self._streams

        def fetch() -> Fetcher:
            return Fetcher(
                streams.server,
                self._fetch_size,
                streams.max_retries,
                self._fails_on_trimmed,
                context.notify_available,
            )

        return RedisStreamReader(context, fetch, self._deserializer, self._group)

    def get_produced_type(self) -> Any:
        """The type of the deserializer's records."""
        return self._deserializer.get_produced_type()


class RedisStreamSourceBuilder:
    """Settings of a RedisStreamSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._keys: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._starting = RedisStreamPosition.earliest()
        self._is_bounded = False
        self._discovery_interval_ms = _DISCOVERY_MS
        self._deserializer: Deserializer = TextFields()
        self._group: str | None = None
        self._fails_on_trimmed = True
        self._fetch_size = _FETCH_SIZE
        self._max_retries = 3

    def set_url(self, url: str) -> RedisStreamSourceBuilder:
        """Set the server: `redis://host:6379/0`, by TLS `rediss://…`; redis-py's settings after a `?`."""
        self._url = checked_url(url)
        return self

    def set_user_name(self, user_name: str) -> RedisStreamSourceBuilder:
        """Set who connects. Default: who is in the url, else the user `default`."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> RedisStreamSourceBuilder:
        """Set the password. Default: that of the url, else none."""
        self._password = password
        return self

    def set_streams(self, *streams: str) -> RedisStreamSourceBuilder:
        """Read the streams with these keys, also those that are not there yet. Excludes `set_stream_pattern`."""
        if not streams or not all(streams):
            raise ValueError(f"set_streams takes keys of streams, got {streams!r}")
        self._keys = tuple(dict.fromkeys(streams))
        return self

    def set_stream_pattern(self, pattern: str) -> RedisStreamSourceBuilder:
        """Read all streams whose key matches a pattern of Redis (`orders:*`), also those that come later."""
        if not pattern:
            raise ValueError("set_stream_pattern takes a pattern such as 'orders:*', got an empty one")
        self._pattern = pattern
        return self

    def set_discovery_interval_ms(self, discovery_interval_ms: int) -> RedisStreamSourceBuilder:
        """Set how often streams are looked for that match the pattern. Default: 30000."""
        self._discovery_interval_ms = checked_at_least("discovery_interval_ms", discovery_interval_ms, 1)
        return self

    def set_starting_position(self, starting_position: RedisStreamPosition) -> RedisStreamSourceBuilder:
        """Set where a job without state begins. Default: `earliest()`. Streams found later are read whole."""
        if not isinstance(starting_position, RedisStreamPosition):
            raise TypeError(f"expected a RedisStreamPosition such as earliest(), got {starting_position!r}")
        self._starting = starting_position
        return self

    def set_bounded(self) -> RedisStreamSourceBuilder:
        """End with the last entry that each stream has when the job starts. The source is bounded then."""
        self._is_bounded = True
        return self

    def set_value_deserializer(
        self, field: str, deserialization_schema: DeserializationSchema
    ) -> RedisStreamSourceBuilder:
        """Make records of one field's values: by SimpleStringSchema, JsonDeserializationSchema and others.

        Default: a record is a dict of all fields, names and values as text.
        """
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeError(
                f"expected a DeserializationSchema such as SimpleStringSchema(), got {deserialization_schema!r}"
            )
        self._deserializer = OneField(field, deserialization_schema)
        return self

    def set_deserializer(
        self, deserializer: Callable[[RedisStreamEntry], Any], type_info: TypeInformation | None = None
    ) -> RedisStreamSourceBuilder:
        """Make records of whole entries by a function, which returns None for those to be left out."""
        if not callable(deserializer):
            raise TypeError(f"expected a function of a RedisStreamEntry, got {deserializer!r}")
        check_result_kind(deserializer, "the deserializer")
        self._deserializer = WholeEntry(deserializer, type_info)
        return self

    def set_consumer_group(self, group: str) -> RedisStreamSourceBuilder:
        """Move the position of this group with each completed checkpoint, for those who watch the streams.

        It does not share entries out, and nothing is pending in it.
        """
        self._group = group
        return self

    def set_on_trimmed(self, on_trimmed: str) -> RedisStreamSourceBuilder:
        """Set what happens when entries may have been trimmed before they were read.

        `fail` (default): the job fails. `warn`: it goes on with what is there, and its log says so.
        """
        if on_trimmed not in _ON_TRIMMED:
            raise ValueError(f"on_trimmed must be 'fail' or 'warn', got {on_trimmed!r}")
        self._fails_on_trimmed = on_trimmed == "fail"
        return self

    def set_fetch_size(self, fetch_size: int) -> RedisStreamSourceBuilder:
        """Set how many entries of a stream are read at once; ten times as many may wait in memory. Default: 1000."""
        self._fetch_size = checked_at_least("fetch_size", fetch_size, 1)
        return self

    def set_max_retries(self, max_retries: int) -> RedisStreamSourceBuilder:
        """Set how often a server that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def build(self) -> RedisStreamSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a RedisStreamSource needs a server: set_url('redis://host:6379/0')")
        if (self._pattern is None) == (not self._keys):
            raise ValueError("a RedisStreamSource needs either set_streams or set_stream_pattern")
        streams = Streams(
            RedisServer(self._url, self._user_name, self._password),
            self._keys,
            self._pattern,
            self._starting,
            self._is_bounded,
            self._max_retries,
        )
        looks_again = self._pattern is not None and not self._is_bounded
        return RedisStreamSource(
            streams,
            self._discovery_interval_ms if looks_again else None,
            self._deserializer,
            self._group,
            self._fetch_size,
            self._fails_on_trimmed,
        )
