"""Partitioners: they select the subtask of the next vertex for each record.

Each sender has its own copy, set up with the accumulators of the channels that it may write to. A partitioner selects
by the record, the sender's index and a seeded generator, never by chance: a task that runs twice in batched mode sends
the same records to the same subtasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.functions.field_key import FieldKey, is_exact
from penstock.common.functions.quick_selectors import quick_selector
from penstock.common.functions.user_calls import results_of
from penstock.common.types.whole_numbers import as_int
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.sender import OutputChannel
from penstock.engine.state.container_keys import as_key, converting, is_convertible
from penstock.engine.state.key_groups import KeyGroups, subtask_of
from penstock.engine.state.keys import encode_key

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.columns.chunk import Columns
    from penstock.engine.runtime.columns.routing import KeyRoutes


class Accumulator(OutputChannel):
    """A channel whose last chunk is still gathered, record by record.

    The lists are never replaced: the routes of a partitioner hold their bound `append`.
    """

    __slots__ = ("append_pair", "append_value", "timestamps", "values")

    def __init__(self, target: int, key_group: int = NO_KEY_GROUP) -> None:
        super().__init__(target, key_group)
        self.values: Values = []
        self.timestamps: list[int] = []
        self.append_value = self.values.append
        self.append_pair = (self.values.append, self.timestamps.append)

    def extend(self, chunk: Rows) -> None:
        """Append a whole chunk."""
        self.values.extend(chunk.values)
        if chunk.timestamps is not None:
            self.timestamps.extend(chunk.timestamps)

    def close_chunk(self) -> None:
        """Close the current chunk: an element follows, or timestamps begin or end."""
        if self.values:
            # Copied and cleared, not replaced: routes hold the `append` of these lists.
            self.items.append(Rows(self.values[:], self.timestamps[:] if self.timestamps else None))
            self.records += len(self.values)
            self.values.clear()
            self.timestamps.clear()


class LoggedPlace(NamedTuple):
    """The place of a buffer in a log of records in flight: its position, and its receiver at that time, of `before`."""

    position: int
    receiver: int
    before: int


class Partitioner:
    """Base class: may write to all subtasks of the target. `ship_strategy`: the name in plans."""

    ship_strategy = "?"
    keyed = False
    keeps_subtask = False
    """Whether each record goes to the receiver with the sender's index: both sides have the same parallelism."""
    broadcasts = False
    """Whether each record goes to all receivers."""
    fields: tuple[str, ...] = ()
    """The fields that make the key; empty if only a key selector knows it."""
    may_be_overtaken = True
    """Whether barriers may overtake its records: after a rescale, each has to find its subtask."""

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Return the subtasks that this sender may write to."""
        return range(receivers)

    def setup(self, channels: list[Any], sender: int) -> None:
        """Set up the partitioner, once in the subtask. `channels`: accumulators, in the order of `targets`."""
        self.channels = channels

    def distribute(self, chunk: Rows) -> None:
        """Append each record to the accumulator of its channel."""
        raise NotImplementedError

    def carries_columns(self, columns: RecordColumns) -> bool:
        """Return whether it can divide these columns, without a call for each record."""
        return True

    def setup_columns(self, edge: EdgeInfo, key_groups: KeyGroups) -> None:
        """Prepare for the columns of an edge, after `setup`."""

    def distribute_columns(self, chunk: Columns) -> None:
        """Append each record to the accumulator of its channel."""
        for channel in self.channels:
            channel.extend(chunk)

    def probe_columns(self, record: Columns) -> None:
        """Raise what `distribute_columns` would raise for this record, a chunk of one."""

    def setup_groups(self, accumulator_of: Callable[[int], Accumulator], key_groups: KeyGroups) -> None:
        """Set the accumulators of key groups, by `accumulator_of`, if it is keyed. `key_groups` finds a key's group."""
        raise NotImplementedError

    def calls(self) -> tuple[Callable[..., Any], ...]:
        """Return the user's callables that it calls: key selector, partitioner."""
        return ()

    def may_hold_records_of(self, subtask: int, logged: LoggedPlace, parallelism: int) -> bool:
        """Return whether a logged buffer may hold records for a subtask, now that there are `parallelism` subtasks."""
        return logged.position % parallelism == subtask

    def receiver_of(self, parallelism: int, key_groups: KeyGroups) -> Callable[[Any], int] | None:
        """Return a function from record to subtask; None if any subtask may process a record."""
        return None

    def part_of_columns(self, columns: Columns, subtask: int, edge: EdgeInfo, key_groups: KeyGroups) -> Columns:
        """Return the records of an edge for a subtask, as `receiver_of` says of rows."""
        return columns

    def probe(self, value: Any) -> None:
        """Raise what `distribute` would raise for this record."""

    def __repr__(self) -> str:
        return self.ship_strategy


class ForwardPartitioner(Partitioner):
    """Send from subtask i to subtask i: both sides have the same parallelism."""

    ship_strategy = "FORWARD"
    keeps_subtask = True
    may_be_overtaken = False

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        return range(sender, sender + 1)

    def distribute(self, chunk: Rows) -> None:
        self.channels[0].extend(chunk)


class GlobalPartitioner(Partitioner):
    """Send all records to the first subtask; the others get only watermarks, barriers and the end."""

    ship_strategy = "GLOBAL"

    def distribute(self, chunk: Rows) -> None:
        self.channels[0].extend(chunk)

    def distribute_columns(self, chunk: Columns) -> None:
        self.channels[0].extend(chunk)

    def may_hold_records_of(self, subtask: int, logged: LoggedPlace, parallelism: int) -> bool:
        return subtask == 0


class RebalancePartitioner(Partitioner):
    """Send record by record to one channel after the other."""

    ship_strategy = "REBALANCE"

    def setup(self, channels: list[Any], sender: int) -> None:
        super().setup(channels, sender)
        # Each sender starts at another channel: with few records the first receiver would get all of them.
        self._next = sender % len(channels)

    def distribute(self, chunk: Rows) -> None:
        values, timestamps = chunk.values, chunk.timestamps
        channels, count = self.channels, len(self.channels)
        for offset in range(min(count, len(values))):
            share = Rows(values[offset::count], timestamps[offset::count] if timestamps else timestamps)
            channels[(self._next + offset) % count].extend(share)
        self._next = (self._next + len(values)) % count

    def distribute_columns(self, chunk: Columns) -> None:
        """Give each channel a slice: to take every n-th row would copy them."""
        from penstock.engine.runtime.columns.routing import divide_evenly

        divide_evenly(chunk, self.channels, self._next)
        self._next = (self._next + len(chunk)) % len(self.channels)


class RescalePartitioner(RebalancePartitioner):
    """Send round robin to this sender's share of the subtasks, so that fewer channels are needed."""

    ship_strategy = "RESCALE"
    may_be_overtaken = False

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        if receivers <= senders:
            target = sender * receivers // senders
            return range(target, target + 1)
        return range(-(-sender * receivers // senders), -(-(sender + 1) * receivers // senders))

    def setup(self, channels: list[Any], sender: int) -> None:
        super().setup(channels, 0)


class BroadcastPartitioner(Partitioner):
    """Send every record to every subtask."""

    ship_strategy = "BROADCAST"
    broadcasts = True
    may_be_overtaken = False

    def distribute(self, chunk: Rows) -> None:
        for channel in self.channels:
            channel.extend(chunk)

    def may_hold_records_of(self, subtask: int, logged: LoggedPlace, parallelism: int) -> bool:
        # Each former subtask had a copy of its own.
        return logged.receiver == subtask % logged.before


class ShufflePartitioner(Partitioner):
    """Send each record to a channel drawn by a generator that is seeded with the sender's index."""

    ship_strategy = "SHUFFLE"

    def setup(self, channels: list[Any], sender: int) -> None:
        super().setup(channels, sender)
        self._random = _linear_congruential(sender)

    def distribute(self, chunk: Rows) -> None:
        channels, count, random = self.channels, len(self.channels), self._random
        _append_each(chunk, (channels[next(random) * count >> 32] for _ in chunk.values))

    def distribute_columns(self, chunk: Columns) -> None:
        from penstock.engine.runtime.columns.routing import as_integers, divide

        count, random = len(self.channels), self._random
        divide(chunk, as_integers(next(random) * count >> 32 for _ in range(len(chunk))), self.channels)


class HashPartitioner(Partitioner):
    """Send by key: all records of a key group to the subtask that owns it. Caches up to `cached_keys_max` keys."""

    ship_strategy = "HASH"
    keyed = True

    def __init__(self, key_selector: Callable[[Any], Any], cached_keys_max: int = 1_000_000) -> None:
        self.key_selector = key_selector
        if isinstance(key_selector, FieldKey):
            self.fields = key_selector.fields
        self._cached_keys_max = cached_keys_max

    def calls(self) -> tuple[Callable[..., Any], ...]:
        return (self.key_selector,)

    def probe(self, value: Any) -> None:
        encode_key(as_key(self.key_selector(value)))

    def may_hold_records_of(self, subtask: int, logged: LoggedPlace, parallelism: int) -> bool:
        return True

    def receiver_of(self, parallelism: int, key_groups: KeyGroups) -> Callable[[Any], int]:
        select = self.key_selector
        return lambda value: subtask_of(key_groups[as_key(select(value))], key_groups.max_parallelism, parallelism)

    def carries_columns(self, columns: RecordColumns) -> bool:
        return bool(self.fields) and all(map(columns.has_keys, self.fields))

    def setup_columns(self, edge: EdgeInfo, key_groups: KeyGroups) -> None:
        self._column_routes = self._routes_of(edge, key_groups)

    def distribute_columns(self, chunk: Columns) -> None:
        self._column_routes.divide(chunk, self.channels)

    def probe_columns(self, record: Columns) -> None:
        self._column_routes.subtasks(record.batch)

    def part_of_columns(self, columns: Columns, subtask: int, edge: EdgeInfo, key_groups: KeyGroups) -> Columns:
        return columns.filtered(self._routes_of(edge, key_groups).subtasks(columns.batch) == subtask)

    def _routes_of(self, edge: EdgeInfo, key_groups: KeyGroups) -> KeyRoutes:
        from penstock.engine.runtime.columns.routing import KeyRoutes

        exact = is_exact(self.key_selector)
        return KeyRoutes(edge.key_fields, key_groups, edge.target_parallelism, exact=exact)

    def setup_groups(self, accumulator_of: Callable[[int], Accumulator], key_groups: KeyGroups) -> None:
        self._appends = _Routes(lambda key: accumulator_of(key_groups[key]).append_value, self._cached_keys_max)
        self._pair_appends = _Routes(lambda key: accumulator_of(key_groups[key]).append_pair, self._cached_keys_max)
        self._select = quick_selector(self.key_selector)
        self._converts = False

    def distribute(self, chunk: Rows) -> None:
        values, timestamps = chunk.values, chunk.timestamps
        rest: Any = iter(values)
        try:
            self._distribute(rest, timestamps)
        except TypeError:
            failed = len(values) - rest.__length_hint__() - 1
            if self._converts or not is_convertible(self.key_selector(values[failed])):
                raise
            # This is the first key that is a list or dict. From now on all keys are converted.
            self._converts = True
            self._select = converting(self.key_selector)
            self._distribute(iter(values[failed:]), timestamps and timestamps[failed:])

    def _distribute(self, values: Iterator[Any], timestamps: list[int] | None) -> None:
        # The only cost per record is a dict lookup, from key to the bound append of its channel.
        select = self._select
        if timestamps is None:
            appends = self._appends
            for value in values:
                appends[select(value)](value)
        else:
            pairs = self._pair_appends
            for value, timestamp in zip(values, timestamps, strict=True):
                append_value, append_timestamp = pairs[select(value)]
                append_value(value)
                append_timestamp(timestamp)


class CustomPartitioner(Partitioner):
    """Send by the user's function of (key, number of channels)."""

    ship_strategy = "CUSTOM"

    def __init__(self, partition: Callable[[Any, int], int], key_selector: Callable[[Any], Any]) -> None:
        self.partition = partition
        self.key_selector = key_selector

    def distribute(self, chunk: Rows) -> None:
        _append_each(chunk, iter(results_of(self._channel_of, len(chunk), chunk.values)))

    def calls(self) -> tuple[Callable[..., Any], ...]:
        return self.partition, self.key_selector

    def carries_columns(self, columns: RecordColumns) -> bool:
        return False

    def may_hold_records_of(self, subtask: int, logged: LoggedPlace, parallelism: int) -> bool:
        return True

    def receiver_of(self, parallelism: int, key_groups: KeyGroups) -> Callable[[Any], int]:
        partition, select_key = self.partition, self.key_selector
        return lambda value: partition(select_key(value), parallelism)

    def probe(self, value: Any) -> None:
        self._channel_of(value)

    def _channel_of(self, value: Any) -> Accumulator:
        count = len(self.channels)
        index = self.partition(self.key_selector(value), count)
        # Checked: Python would take -1 for the last channel.
        if type(index) is not int and as_int(index) is None:
            raise TypeError(f"the partitioner returned {index!r:.80} for {value!r:.100}; it must be an int")
        if not 0 <= index < count:
            raise ValueError(f"the partitioner returned {index!r} for {value!r:.100}; it must be from 0 to {count - 1}")
        channel: Accumulator = self.channels[index]
        return channel


def channel_of_group(
    channels: list[Accumulator], max_parallelism: int, parallelism: int
) -> Callable[[int], Accumulator]:
    """Return the function from a key group to the channel of its subtask."""
    return lambda group: channels[subtask_of(group, max_parallelism, parallelism)]


class _Routes(dict[Any, Any]):
    """A cache from key to bound append, emptied when it holds `keys_max` keys."""

    def __init__(self, find: Callable[[Any], Any], keys_max: int) -> None:
        super().__init__()
        self._find = find
        self._keys_max = keys_max

    def __missing__(self, key: Any) -> Any:
        if len(self) >= self._keys_max:
            self.clear()
        route = self[key] = self._find(key)
        return route


def _append_each(chunk: Rows, channels: Iterator[Accumulator]) -> None:
    values, timestamps = chunk.values, chunk.timestamps
    if timestamps is None:
        for value, channel in zip(values, channels, strict=True):
            channel.append_value(value)
    else:
        for value, timestamp, channel in zip(values, timestamps, channels, strict=True):
            channel.append_value(value)
            channel.append_pair[1](timestamp)


def _linear_congruential(seed: int) -> Iterator[int]:
    """Yield random integers of 32 bits, by the constants of Knuth's MMIX: the same in every process."""
    state = seed * 2862933555777941757 + 3037000493
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        yield state >> 32
