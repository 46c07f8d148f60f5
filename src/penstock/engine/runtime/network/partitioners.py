"""Partitioners: to which subtask of the next vertex a record goes.

Each sender has its own copy, set up with the accumulators of the channels it may write to. All choices are made from
the record, the sender's index and a seeded generator, never from chance: a task that runs twice in batched mode sends
the same records to the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.common.functions.quick_selectors import quick_selector
from penstock.common.functions.user_calls import results_of
from penstock.common.types.whole_numbers import as_int
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Segment
from penstock.engine.state.container_keys import as_key, converting, is_convertible
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import encode_key

# Records that wait to be sent.


class Accumulator:
    """What waits to be sent to one channel (pipelined mode), or of one key group to one target (batched mode).

    The lists live as long as the accumulator does: the routes of a partitioner hold their bound `append`.
    """

    __slots__ = (
        "append_pair",
        "append_value",
        "closed_records",
        "key_group",
        "segments",
        "sequence",
        "target",
        "timestamps",
        "values",
    )

    def __init__(self, target: int, key_group: int = NO_KEY_GROUP) -> None:
        self.target = target
        self.key_group = key_group
        self.sequence = 0
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.segments: list[Segment] = []
        self.closed_records = 0
        """How many records `segments` hold."""
        self.append_value = self.values.append
        self.append_pair = (self.values.append, self.timestamps.append)

    def extend(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Append a whole chunk."""
        self.values.extend(values)
        if timestamps is not None:
            self.timestamps.extend(timestamps)

    def close_segment(self) -> None:
        """End the current segment, because an element follows it, or records of the other kind."""
        if self.values:
            # Copied and cleared, not replaced: routes hold the `append` of these lists.
            self.segments.append((self.values[:], self.timestamps[:] if self.timestamps else None))
            self.closed_records += len(self.values)
            self.values.clear()
            self.timestamps.clear()


class Partitioner:
    """Base: writes to all subtasks of the target. `ship_strategy` is its name in plans."""

    ship_strategy = "?"
    keyed = False

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        """Which subtasks this sender may write to."""
        return range(receivers)

    def setup(self, channels: list[Accumulator], sender: int) -> None:
        """Called once in the subtask. `channels` are those of `targets`, in order."""
        self.channels = channels

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        """Append each record to the accumulator of its channel."""
        raise NotImplementedError

    def calls(self) -> tuple[Callable[..., Any], ...]:
        """What it calls of the user's: a key selector, a partitioner."""
        return ()

    def probe(self, value: Any) -> None:
        """Raise what `distribute` would raise for this record."""

    def __repr__(self) -> str:
        return self.ship_strategy


class ForwardPartitioner(Partitioner):
    """Subtask i to subtask i: both sides have the same parallelism."""

    ship_strategy = "FORWARD"

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        return range(sender, sender + 1)

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.channels[0].extend(values, timestamps)


class GlobalPartitioner(Partitioner):
    """All records to the first subtask; the others get only watermarks, barriers and the end."""

    ship_strategy = "GLOBAL"

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.channels[0].extend(values, timestamps)


class RebalancePartitioner(Partitioner):
    """Record by record to one channel after the other."""

    ship_strategy = "REBALANCE"

    def setup(self, channels: list[Accumulator], sender: int) -> None:
        super().setup(channels, sender)
        # Each sender begins elsewhere: with few records the first receiver would get them all.
        self._next = sender % len(channels)

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        channels, count = self.channels, len(self.channels)
        for offset in range(min(count, len(values))):
            share = values[offset::count]
            channels[(self._next + offset) % count].extend(
                share, timestamps[offset::count] if timestamps else timestamps
            )
        self._next = (self._next + len(values)) % count


class RescalePartitioner(RebalancePartitioner):
    """Round robin over the few subtasks that are this sender's share, so that fewer channels are needed."""

    ship_strategy = "RESCALE"

    def targets(self, sender: int, senders: int, receivers: int) -> range:
        if receivers <= senders:
            target = sender * receivers // senders
            return range(target, target + 1)
        return range(-(-sender * receivers // senders), -(-(sender + 1) * receivers // senders))

    def setup(self, channels: list[Accumulator], sender: int) -> None:
        super().setup(channels, 0)


class BroadcastPartitioner(Partitioner):
    """Every record to every subtask."""

    ship_strategy = "BROADCAST"

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        for channel in self.channels:
            channel.extend(values, timestamps)


class ShufflePartitioner(Partitioner):
    """Each record to a channel drawn by a generator that is seeded with the sender's index."""

    ship_strategy = "SHUFFLE"

    def setup(self, channels: list[Accumulator], sender: int) -> None:
        super().setup(channels, sender)
        self._random = _linear_congruential(sender)

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        channels, count, random = self.channels, len(self.channels), self._random
        _append_each(values, timestamps, (channels[next(random) * count >> 32] for _ in values))


class HashPartitioner(Partitioner):
    """By key: all records of a key group to the subtask that owns it. At most `cached_keys_max` keys are remembered."""

    ship_strategy = "HASH"
    keyed = True

    def __init__(self, key_selector: Callable[[Any], Any], cached_keys_max: int = 1_000_000) -> None:
        self.key_selector = key_selector
        self._cached_keys_max = cached_keys_max

    def calls(self) -> tuple[Callable[..., Any], ...]:
        return (self.key_selector,)

    def probe(self, value: Any) -> None:
        encode_key(as_key(self.key_selector(value)))

    def setup_groups(self, of_group: Callable[[int], Accumulator], key_groups: KeyGroups) -> None:
        """Where the records of a key group are gathered; `key_groups` finds the group of a key."""
        self._appends = _Routes(lambda key: of_group(key_groups[key]).append_value, self._cached_keys_max)
        self._pair_appends = _Routes(lambda key: of_group(key_groups[key]).append_pair, self._cached_keys_max)
        self._select = quick_selector(self.key_selector)
        self._converts = False

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        rest: Any = iter(values)
        try:
            self._distribute(rest, timestamps)
        except TypeError:
            failed = len(values) - rest.__length_hint__() - 1
            if self._converts or not is_convertible(self.key_selector(values[failed])):
                raise
            # The first key that is a list or dict. From now on all keys are converted.
            self._converts = True
            self._select = converting(self.key_selector)
            self._distribute(iter(values[failed:]), timestamps and timestamps[failed:])

    def _distribute(self, values: Iterator[Any], timestamps: list[int] | None) -> None:
        # One dict lookup from key to the bound append of its channel: nothing else is paid per record.
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
    """By the user's function of (key, number of channels)."""

    ship_strategy = "CUSTOM"

    def __init__(self, partition: Callable[[Any, int], int], key_selector: Callable[[Any], Any]) -> None:
        self.partition = partition
        self.key_selector = key_selector

    def distribute(self, values: list[Any], timestamps: list[int] | None) -> None:
        _append_each(values, timestamps, iter(results_of(self._channel_of, len(values), values)))

    def calls(self) -> tuple[Callable[..., Any], ...]:
        return self.partition, self.key_selector

    def probe(self, value: Any) -> None:
        self._channel_of(value)

    def _channel_of(self, value: Any) -> Accumulator:
        count = len(self.channels)
        index = self.partition(self.key_selector(value), count)
        # Checked, since Python would take -1 for the last channel.
        if type(index) is not int and as_int(index) is None:
            raise TypeError(f"the partitioner returned {index!r:.80} for {value!r:.100}; it must be an int")
        if not 0 <= index < count:
            raise ValueError(f"the partitioner returned {index!r} for {value!r:.100}; it must be from 0 to {count - 1}")
        return self.channels[index]


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


def _append_each(values: list[Any], timestamps: list[int] | None, chosen: Iterator[Accumulator]) -> None:
    if timestamps is None:
        for value, channel in zip(values, chosen, strict=True):
            channel.append_value(value)
    else:
        for value, timestamp, channel in zip(values, timestamps, chosen, strict=True):
            channel.append_value(value)
            channel.append_pair[1](timestamp)


def _linear_congruential(seed: int) -> Iterator[int]:
    """Random integers of 32 bits, by the constants of Knuth's MMIX: the same in every process and Python version."""
    state = seed * 2862933555777941757 + 3037000493
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        yield state >> 32
