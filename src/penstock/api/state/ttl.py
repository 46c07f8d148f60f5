"""Time to live of state. Source: Flink docs, "Working with State", State Time-To-Live (TTL)."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from penstock.common.time import Duration, Time, TimeLength, to_milliseconds

_MONTH = Duration.of_days(30)


class _UpdateType(enum.Enum):
    Disabled = 0
    """State does not expire."""
    OnCreateAndWrite = 1
    """Each write restarts the time."""
    OnReadAndWrite = 2
    """Each write and each read restarts the time."""


class _StateVisibility(enum.Enum):
    ReturnExpiredIfNotCleanedUp = 0
    """Expired state can be read until it is cleaned up."""
    NeverReturnExpired = 1
    """Expired state reads as if it did not exist."""


class _TtlTimeCharacteristic(enum.Enum):
    ProcessingTime = 0
    """The clock of the machine."""


class _CleanupStrategies:
    """How expired state is removed if it is not read.

    The classes are PyFlink's. In penstock each strategy turns on the clean-up of the state's backend
    (docs/how-to/state-ttl.md), and the settings of the strategies have no effect.
    """

    class Strategies(enum.Enum):
        """The available strategies."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """Settings of a strategy."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A strategy without settings."""

    class IncrementalCleanupStrategy(CleanupStrategy):
        """In Flink, each access (optionally each record) examines a few entries."""

        def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
            self._cleanup_size = cleanup_size
            self._run_cleanup_for_every_record = run_cleanup_for_every_record

        def get_cleanup_size(self) -> int:
            """Return the number of entries that are examined each time."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """Return whether each record examines entries, too."""
            return self._run_cleanup_for_every_record

    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """In Flink, RocksDB leaves out expired entries when it compacts its files."""

        def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration = _MONTH) -> None:
            self._query_time_after_num_entries = query_time_after_num_entries
            self._periodic_compaction_time = periodic_compaction_time

        def get_query_time_after_num_entries(self) -> int:
            """Return the number of entries after which the clock is read again."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """Return the age at which files are compacted in any case."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Return whether backends clean up even without a strategy."""
        return self._is_cleanup_in_background

    @property
    def cleans_up(self) -> bool:
        """Whether expired state is removed even if it is not read."""
        return self._is_cleanup_in_background or bool(self._strategies)

    def in_full_snapshot(self) -> bool:
        """Return whether full snapshots leave expired state out."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> _CleanupStrategies.IncrementalCleanupStrategy | None:
        """Return the settings of the incremental clean-up, or None if it is off."""
        strategy = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
        if isinstance(strategy, self.IncrementalCleanupStrategy):
            return strategy
        return self.IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> _CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None:
        """Return the settings of RocksDB's clean-up, or None if it is off."""
        strategy = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(strategy, self.RocksdbCompactFilterCleanupStrategy):
            return strategy
        return self.RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None


class StateTtlConfig:
    """When unused state expires, and how it is removed. Create it with `StateTtlConfig.new_builder(Time.hours(1))`."""

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: TimeLength,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        ttl_ms = to_milliseconds(ttl)
        if ttl_ms <= 0:
            raise ValueError(f"the time to live must be more than 0 ms, got {ttl_ms} ms")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl_ms = ttl_ms
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: TimeLength) -> StateTtlConfig.Builder:
        """Return a builder with this time to live. Its `build` raises ValueError unless the time is above 0."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        """Return which accesses restart the time."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Return whether expired state can be read until it is cleaned up."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Return the time to live."""
        return Time.milliseconds(self._ttl_ms)

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """Return the clock that measures the time."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Return whether state expires at all."""
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Return how expired state is removed."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type.name}, state_visibility={self._state_visibility.name}, "
            f"ttl={self._ttl_ms} ms>"
        )

    class Builder:
        """Collects the settings. By default writes restart the time, and expired state is never returned."""

        def __init__(self, ttl: TimeLength) -> None:
            self._ttl = ttl
            self._update_type = _UpdateType.OnCreateAndWrite
            self._state_visibility = _StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = _TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[_CleanupStrategies.Strategies, _CleanupStrategies.CleanupStrategy] = {}

        def set_update_type(self, update_type: _UpdateType) -> StateTtlConfig.Builder:
            """Set which accesses restart the time."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Restart the time with each write."""
            return self.set_update_type(_UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Restart the time with each write and each read."""
            return self.set_update_type(_UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: _StateVisibility) -> StateTtlConfig.Builder:
            """Set whether expired state can be read until it is cleaned up."""
            self._state_visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Let expired state be read until it is cleaned up."""
            return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Hide expired state."""
            return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: _TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Set the clock that measures the time."""
            self._ttl_time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Measure by the clock of the machine."""
            return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Clean up. In Flink: leave expired state out of full snapshots."""
            return self._with(_CleanupStrategies.Strategies.FULL_STATE_SCAN_SNAPSHOT, _CleanupStrategies.EMPTY_STRATEGY)

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Clean up. In Flink: examine `cleanup_size` entries with each access, and optionally with each record."""
            return self._with(
                _CleanupStrategies.Strategies.INCREMENTAL_CLEANUP,
                _CleanupStrategies.IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record),
            )

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: Duration = _MONTH
        ) -> StateTtlConfig.Builder:
            """Clean up. In Flink: let RocksDB leave out expired entries when it compacts its files."""
            return self._with(
                _CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER,
                _CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    query_time_after_num_entries, periodic_compaction_time
                ),
            )

        def _with(
            self, strategy: _CleanupStrategies.Strategies, settings: _CleanupStrategies.CleanupStrategy
        ) -> StateTtlConfig.Builder:
            self._strategies[strategy] = settings
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Clean up only if a strategy is configured."""
            self._is_cleanup_in_background = False
            return self

        def set_ttl(self, ttl: TimeLength) -> StateTtlConfig.Builder:
            """Set the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the settings. Raises ValueError unless the time to live is above 0."""
            return StateTtlConfig(
                update_type=self._update_type,
                state_visibility=self._state_visibility,
                ttl_time_characteristic=self._ttl_time_characteristic,
                ttl=self._ttl,
                cleanup_strategies=_CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )
