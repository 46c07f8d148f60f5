"""What is measured of state without Spark: items 24 to 26 of the catalogue."""

from __future__ import annotations

from benchmarks.goals import Bound, Goal, Measurement


def _states() -> list[Measurement]:
    """State without Spark: restores, times to live, timers."""
    restored = tuple(
        goal for n in (2, 4, 1) for goal in (Goal(f"to_{n}_s", "s"), Goal(f"to_{n}_mb_per_s", "MB/s", scaled=True))
    )
    expiring = (
        Goal("ttl_bytes", "bytes", 20, Bound.AT_MOST),
        Goal("ttl_updated_bytes", "bytes", 20, Bound.AT_MOST),
        Goal("with_update_us", "µs"),
        Goal("with_examine_us", "µs"),
    )
    timers = tuple(Goal(f"{what}_us", "µs") for what in ("register", "delete", "fire"))
    grown = Goal("grown_mb", "MB", 500, Bound.AT_MOST)
    few, entries = ("--timers", "10000"), ("--entries", "100000")
    return [
        Measurement(
            24,
            "2 → 2, 4, 1",
            "restored_state",
            ("--state-mb", "2000"),
            (*restored, Goal("copy_s", "s"), Goal("checkpoint_mb", "MB")),
            steady=False,
            runs_max=1,
            quick_options=("--state-mb", "5"),
        ),
        Measurement(
            24,
            "10 GB, 2 → 2, 4",
            "restored_state",
            ("--state-mb", "10000", "--to", "2", "4"),
            (
                *(goal for goal in restored if "to_1" not in goal.figure),
                Goal("copy_s", "s"),
                Goal("checkpoint_mb", "MB"),
            ),
            steady=False,
            runs_max=1,
            quick_options=("--state-mb", "5"),
            large=True,
        ),
        Measurement(25, "values", "expiring_state", (), expiring, steady=False, quick_options=entries),
        Measurement(
            25,
            "values in RocksDB",
            "expiring_state",
            ("--backend", "rocksdb"),
            (Goal("ttl_bytes", "bytes"), Goal("ttl_updated_bytes", "bytes"), *expiring[2:]),
            steady=False,
            quick_options=entries,
        ),
        Measurement(26, "heap", "many_timers", ("--backend", "heap"), timers, steady=False, quick_options=few),
        Measurement(
            26,
            "10,000,000, RocksDB",
            "many_timers",
            ("--timers", "10000000"),
            (*timers, grown),
            steady=False,
            runs_max=1,
            quick_options=few,
        ),
    ]


STATES = _states()
