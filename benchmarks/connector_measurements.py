"""What is measured of connectors: items 30 to 34, 36 and 37 of the catalogue."""

from __future__ import annotations

from benchmarks.goals import Goal, Measurement, latency_goals, rate_goal

_UPSERT = "upsert-exactly-once"
_FEW = ("--records", "100000")

CONNECTORS = [
    *(
        Measurement(30, how, "kafka", ("--guarantee", how), (rate_goal(goal),), steady=False, quick_options=_FEW)
        for how, goal in (("bare", None), ("at-least-once", 180_000), ("exactly-once", 150_000))
    ),
    *(
        Measurement(
            37,
            what,
            "kafka_columns",
            ("--what", what),
            (Goal("ratio", "× rows", goal), Goal("cpu_ratio", "× rows"), Goal("columns_per_s", "records/s")),
            steady=False,
            quick_options=(*_FEW, "--runs", "1"),
        )
        for what, goal in (("windows", 2), ("copy", 1.5))
    ),
    *(
        Measurement(31, what, "files", ("--what", what), (rate_goal(goal),), quick_options=_FEW)
        for what, goal in (("parquet-in", 1_500_000), ("parquet-out", 800_000), ("json-lines-in", 600_000))
    ),
    *(
        Measurement(32, how, "tables", ("--how", how), (rate_goal(goal),))
        for how, goal in (("upsert", 60_000), ("exactly-once", 40_000), ("write-ahead-log", None), ("sqlalchemy", None))
    ),
    *(
        Measurement(32, f"{_UPSERT}, {form}", "tables", ("--how", _UPSERT, *options), (rate_goal(),))
        for form, options in (("rows", ()), ("columns", ("--columns",)))
    ),
    Measurement(33, "20,000/s, at least once", "kafka_latency", (), latency_goals(30)),
    *(
        Measurement(34, what, "messages", ("--format", what), (rate_goal(),))
        for what in ("json", "csv", "avro", "protobuf")
    ),
    *(
        Measurement(
            36,
            what,
            "file_jobs",
            ("--format", what, "--records", str(records)),
            (rate_goal(goal), Goal("ratio", "×", ratio)),
            steady=False,
            quick_options=_FEW,
        )
        for what, records, goal, ratio in (
            ("parquet", 20_000_000, 8_000_000, None),
            ("csv", 4_000_000, None, 2),
            ("json", 4_000_000, None, 1.5),
        )
    ),
]
