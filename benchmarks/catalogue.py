"""The measurements: items, the programs that measure them, and their goals.

Goals apply to the reference machine (see yardstick.py). A *scaled* goal concerns CPU: it is relative to the
yardstick, so a machine three times slower has a goal three times lower.
"""

from __future__ import annotations

from benchmarks.connector_measurements import CONNECTORS
from benchmarks.goals import Bound, Goal, Measurement, latency_goals, rate_goal
from benchmarks.state_measurements import STATES

TITLES = {
    1: "keyed running count: KeyedProcessFunction, ValueState",
    2: "keyed running count, many keys",
    3: "stateless: map, filter",
    4: "reduce and sum",
    5: "event-time windows, aggregate, 1,000 keys",
    6: "latency of one exchange",
    7: "latency of three exchanges, 5 ms buffers",
    8: "latency and throughput by buffer timeout",
    9: "unbounded source, slow sink",
    10: "batched word count",
    11: "records by size and kind",
    12: "start",
    13: "idle job, three exchanges",
    14: "cost by parallelism, stages, keys, size, subtasks",
    15: "what checkpoints cost a job",
    16: "checkpoints of 1 GB of keyed state, 1 % of keys changed",
    17: "checkpoints by size of state and parallelism",
    18: "recovery of 100 MB of keyed state",
    19: "rescaling 500 MB of keyed state",
    20: "a full snapshot beside the work: a thread in slices, a forked child",
    21: "the transports between a task and Spark",
    22: "two streams: connected, joined, broadcast rules",
    23: "keyed jobs in BATCH",
    24: "restoring state in RocksDB",
    25: "what a time to live costs",
    26: "many timers",
    27: "asynchronous calls",
    28: "loops",
    29: "in flight before a slow sink, by its rate",
    30: "Kafka to keyed count to Kafka, messages of 200 bytes",
    31: "files of rows with five columns",
    32: "rows into a table of PostgreSQL",
    33: "the age of a message of Kafka behind a keyed count",
    34: "rows from messages of five fields, one thread",
    35: "200 requests of REST a second",
    36: "files to files on columns: filter, windows",
    37: "Kafka on columns beside rows, messages of 200 bytes",
    38: "payloads of 1 MiB through one exchange, in shared memory and in Spark's rows",
    39: "patterns, 1,000 keys: the events that the source gives",
}

BUFFER_TIMEOUTS_MS, _BATCHES = (0, 1, 2, 5, 10, 20, 50, 100), ("", "--function reduce", "--timed", "--keys 5000000")
CURVE_PARALLELISMS, CURVE_STAGES = (1, 2, 4, 8), (1, 2, 3, 4, 5, 6)
CURVE_KEYS, CURVE_BYTES = (100, 1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000, 100_000)
CURVE_SUBTASKS = (40, 100, 200, 400, 1_000)
STATE_SIZES_MB = (10, 100, 500, 1_000, 2_000)
STATE_PARALLELISMS, FULL_SIZES_MB = (1, 2, 4), (1_000, 4_000)
_CURVE_SECONDS, _LONG_SECONDS = 10, 600


def _throughput() -> list[Measurement]:
    many = ("--see-all-keys", "--keys")
    memory = Goal("python_mb", "MB")
    return [
        Measurement(1, "1,000 keys", "keyed_count", (), (rate_goal(1_500_000),)),
        Measurement(2, "1,000 keys", "keyed_count", (*many, "1000"), (rate_goal(), memory)),
        Measurement(2, "100,000 keys", "keyed_count", (*many, "100000"), (rate_goal(1_000_000), memory)),
        Measurement(2, "5,000,000 keys", "keyed_count", (*many, "5000000"), (rate_goal(), memory)),
        Measurement(3, "map → filter → sink", "stateless", (), (rate_goal(3_000_000),)),
        Measurement(4, "reduce", "keyed_count", ("--function", "reduce"), (rate_goal(2_000_000),)),
        Measurement(4, "sum", "keyed_count", ("--function", "sum"), (rate_goal(2_000_000),)),
        Measurement(5, "tumbling", "windows", (), (rate_goal(1_000_000),)),
        Measurement(5, "sliding, 10 panes", "windows", ("--windows", "sliding"), (rate_goal(300_000),)),
        Measurement(22, "connected", "two_streams", ("--program", "connected"), (rate_goal(1_000_000),)),
        Measurement(22, "interval join", "two_streams", ("--program", "interval-join"), (rate_goal(400_000),)),
        Measurement(22, "broadcast", "two_streams", ("--program", "broadcast"), (rate_goal(60_000),)),
        *(
            Measurement(39, name, "patterns", ("--program", program), (rate_goal(goal),))
            for name, program, goal in (
                ("a .. b, 10 % fit, filter", "two-steps", 2_500_000),
                ("a .. b, 10 % fit, all through the exchange", "everything", 800_000),
                ("a .. b, 10 % fit, filter on columns", "columns", None),
                ("a .. b+ greedy .. c, 15 % fit", "loop", 250_000),
                ("a .. b, 66 % fit", "dense", 300_000),
                ("a , b , c", "strict", None),
                ("one key, 10,000 open partial matches", "open", 300_000),
            )
        ),
        Measurement(27, "10 ms a call, capacity 200", "async_calls", (), (rate_goal(18_000),)),
        Measurement(28, "passes", "loops", (), (rate_goal(300_000),)),
        Measurement(28, "one pass", "loops", ("--stamped", "--records", "200"), latency_goals(10)),
        Measurement(28, "10,000,000 records in flight", "loops", ("--records", "10000000"), (rate_goal(), memory)),
    ]


def _latencies() -> list[Measurement]:
    one = [
        Measurement(
            6,
            f"{rate:,}/s, {timeout_ms} ms buffers",
            "latency",
            ("--rate", str(rate), "--buffer-timeout-ms", str(timeout_ms)),
            latency_goals(15 if rate == 1 else {1: 5, 5: 10}[timeout_ms]),
            seconds=60 if rate == 1 else 20,
            # The JVM's compiler takes a core and more for the first 20 s.
            warm_up=25,
        )
        for timeout_ms in (1, 5)
        for rate in (1, 1_000, 20_000, 100_000)
    ]
    columns = Measurement(
        6,
        "20,000/s, 1 ms buffers, columns",
        "latency",
        ("--rate", "20000", "--buffer-timeout-ms", "1", "--columns"),
        latency_goals(6),
        warm_up=25,
    )
    three = [
        Measurement(
            7,
            f"{rate:,}/s",
            "latency",
            ("--rate", str(rate), "--exchanges", "3"),
            latency_goals(30),
            seconds=60 if rate == 1 else 20,
        )
        for rate in (1, 1_000, 20_000)
    ]
    beside = Measurement(
        7, "20,000/s, beside one", "latency", ("--exchanges", "3", "--neighbours", "1"), latency_goals(40)
    )
    return [*one, columns, *three, beside]


def _by_buffer_timeout() -> list[Measurement]:
    measurements = []
    for timeout_ms in BUFFER_TIMEOUTS_MS:
        timeout = ("--buffer-timeout-ms", str(timeout_ms))
        measurements += [
            Measurement(8, f"throughput, {timeout_ms} ms", "keyed_count", timeout, (rate_goal(),), _CURVE_SECONDS),
            Measurement(8, f"latency, {timeout_ms} ms", "latency", timeout, latency_goals(None), _CURVE_SECONDS),
        ]
    return measurements


def _in_flight() -> list[Measurement]:
    goals = (
        Goal("in_flight_s", "s", 2, Bound.AT_MOST),
        Goal("in_flight_mb", "MB", 64, Bound.AT_MOST),
        Goal("age_growth", "of the age", 0.1, Bound.AT_MOST),
        Goal("memory_growth_mb", "MB"),
        Goal("records_per_s", "records/s"),
    )
    return [
        Measurement(
            9,
            f"{exchanges} exchange{'s' * (exchanges > 1)}, sink takes {rate:,}/s",
            "back_pressure",
            ("--exchanges", str(exchanges), "--sink-rate", str(rate)),
            goals,
            _LONG_SECONDS,
            warm_up=30,
            runs_max=1,
        )
        for exchanges in (1, 3)
        for rate in (500_000, 100_000)
    ]


def _in_flight_byrate_goal() -> list[Measurement]:
    """What is in flight is bounded by time: docs/internals/decisions/0022-in-flight.md."""
    goals = (Goal("in_flight_s", "s", 1.2, Bound.AT_MOST), Goal("p50_ms", "ms"), rate_goal())
    checkpoint, often = Goal("longest_checkpoint_s", "s", 3, Bound.AT_MOST), ("--checkpoint-interval-ms", "5000")
    soon = Goal("longest_checkpoint_s", "s", 2, Bound.AT_MOST)
    unaligned = ("--conf", "execution.checkpointing.unaligned.enabled=true")

    def before(rate: int, exchanges: int, *more: str) -> tuple[str, ...]:
        return "--exchanges", str(exchanges), "--sink-rate", str(rate), *more

    kinds = (
        *[(f"exchanges: {e}", rate, before(rate, e), goals) for e in (1, 3) for rate in (10_000, 100_000, 500_000)],
        *[("checkpoints", rate, before(rate, 3, *often), (checkpoint, *goals)) for rate in (1_000, 10_000, 100_000)],
        *[("unaligned", rate, before(rate, 3, *often, *unaligned), (soon, *goals)) for rate in (1_000, 100_000)],
    )
    return [Measurement(29, f"{rate:,}/s, {kind}", "back_pressure", asked, aims) for kind, rate, asked, aims in kinds]


def _batches() -> list[Measurement]:
    goals = (Goal("mb_per_s", "MB/s", scaled=True), Goal("seconds", "s"), Goal("memory_mb", "MB"))
    keyed_goals = (Goal("records_per_s", "1/s", scaled=True), Goal("worker_mb", "MB"), Goal("jvm_mb", "MB"))
    return [
        Measurement(10, engine, "word_count", ("--engine", engine), goals, steady=False, quick_options=("--mb", "20"))
        for engine in ("penstock", "rdd", "dataframe")
    ] + [Measurement(23, f"BATCH {k}", "keyed_batch", (*k.split(),), keyed_goals, steady=False) for k in _BATCHES]


def _records() -> list[Measurement]:
    return [
        Measurement(
            11,
            f"{kind}, {size:,} B",
            "record_sizes",
            ("--kind", kind, "--bytes", str(size)),
            (
                Goal("mb_per_s", "MB/s", 100 if size == 10_000 else None, scaled=True),
                Goal("records_per_s", "records/s"),
            ),
            _CURVE_SECONDS,
        )
        for kind in ("row", "dict", "dataclass", "str")
        for size in CURVE_BYTES
    ] + [
        Measurement(
            11,
            f"{kind} from a function, {'object reuse' if reuse == 'true' else 'copied'}",
            "record_sizes",
            ("--kind", kind, "--bytes", "150", "--emitted", "--conf", f"pipeline.object-reuse={reuse}"),
            (rate_goal(),),
            _CURVE_SECONDS,
        )
        for kind in ("wide", "tuple")
        for reuse in ("true", "false")
    ]


def _start_and_idle() -> list[Measurement]:
    start = (
        Goal("import_s", "s", 0.2, Bound.AT_MOST, scaled=True),
        Goal("import_datastream_s", "s"),
        Goal("help_s", "s", 0.3, Bound.AT_MOST, scaled=True),
        Goal("first_record_s", "s", 6, Bound.AT_MOST, scaled=True),
        Goal("whole_job_s", "s"),
        Goal("kept_session_first_record_s", "s", 1.5, Bound.AT_MOST, scaled=True),
        Goal("kept_session_whole_job_s", "s"),
        Goal("python_s", "s"),
        Goal("first_record_jvm_cpu_s", "s"),
        Goal("first_record_python_cpu_s", "s"),
    )
    idle = (Goal("cores", "cores"), Goal("jvm_cores", "cores"), Goal("python_cores", "cores"), Goal("memory_mb", "MB"))
    return [
        Measurement(12, "processes from start", "start", (), start, steady=False, quick_options=("--rounds", "1")),
        Measurement(13, "penstock", "idle", (), idle, 30, 20),
        Measurement(13, "the same plan, Spark alone", "idle", ("--bare",), idle, 30, 20),
    ]


def _curves() -> list[Measurement]:
    master = (Goal("job_master_cores", "cores"), Goal("register_s", "s"), Goal("close_s", "s"))
    return [
        *(
            Measurement(
                14, f"parallelism {n}", "keyed_count", ("--parallelism", str(n)), (rate_goal(),), _CURVE_SECONDS
            )
            for n in CURVE_PARALLELISMS
        ),
        *(
            Measurement(14, f"exchanges {n}", "keyed_count", ("--exchanges", str(n)), (rate_goal(),), _CURVE_SECONDS)
            for n in CURVE_STAGES
        ),
        *(
            Measurement(
                14, f"keys {n:,}", "keyed_count", ("--see-all-keys", "--keys", str(n)), (rate_goal(),), _CURVE_SECONDS
            )
            for n in CURVE_KEYS
        ),
        *(
            Measurement(
                14,
                f"record of {n:,} B",
                "record_sizes",
                ("--bytes", str(n)),
                (Goal("mb_per_s", "MB/s"),),
                _CURVE_SECONDS,
            )
            for n in CURVE_BYTES
        ),
        *(
            Measurement(14, f"job master, {n:,} subtasks", "job_master", ("--subtasks", str(n)), master, steady=False)
            for n in CURVE_SUBTASKS
        ),
        *(
            Measurement(
                14,
                f"simulator, {n:,} subtasks",
                "simulator",
                ("--subtasks", str(n)),
                (Goal("events_per_s", "events/s"), Goal("seconds", "s")),
                steady=False,
                runs_max=1,
                quick_options=("--subtasks", str(min(n, 200))),
            )
            for n in CURVE_SUBTASKS
        ),
    ]


def _checkpointing() -> list[Measurement]:
    """Measurements with and without checkpoints."""
    count = Goal("checkpoints", "")
    latency = (*latency_goals(None), count)
    every = "--checkpoint-interval-ms"
    return [
        Measurement(15, "throughput, no checkpoints", "keyed_count", (), (rate_goal(),)),
        Measurement(15, "throughput, one each second", "keyed_count", (every, "1000"), (rate_goal(), count)),
        Measurement(15, "20,000/s, no checkpoints", "latency", (), latency, seconds=60),
        Measurement(
            15,
            "20,000/s, one every 10 s",
            "latency",
            (every, "10000"),
            latency,
            seconds=60,
            quick_options=(every, "1000"),
        ),
    ]


def _requests() -> list[Measurement]:
    """What clients of REST cost the driver."""
    paths = ("overview", "job", "metrics", "checkpoints", "prometheus")
    cpu = tuple(Goal(f"{path}_cpu_ms", "ms", 1, Bound.AT_MOST, scaled=False) for path in paths)
    return [Measurement(35, "beside 1,000 records/s", "rest_requests", (), cpu)]


def _snapshots() -> list[Measurement]:
    """Checkpoints of large state."""
    large = (
        Goal("sync_ms", "ms", 20, Bound.AT_MOST),
        Goal("written_share", "of the state", 0.05, Bound.AT_MOST),
        Goal("changed_share", "of the keys"),
        Goal("changes_ms", "ms"),
        Goal("full_s", "s"),
        Goal("full_mb_per_s", "MB/s"),
        Goal("state_mb", "MB"),
    )
    curve = (Goal("full_s", "s"), Goal("full_alignment_ms", "ms"), Goal("sync_ms", "ms"), Goal("state_mb", "MB"))
    small = ("--state-mb", "5", "--checkpoint-interval-ms", "1500", "--checkpoints", "2")
    by_size = [
        Measurement(
            17,
            f"{size_mb:,} MB, parallelism {parallelism}",
            "snapshots",
            ("--state-mb", str(size_mb), "--parallelism", str(parallelism), "--checkpoints", "1"),
            curve,
            steady=False,
            runs_max=1,
            quick_options=("--state-mb", str(max(1, size_mb // 100)), *small[2:]),
        )
        for size_mb in STATE_SIZES_MB
        for parallelism in STATE_PARALLELISMS
    ]
    options = ("--state-mb", "1000", "--changed-percent", "1")
    return [Measurement(16, "1 GB", "snapshots", options, large, steady=False, quick_options=small), *by_size]


def _recoveries() -> list[Measurement]:
    """Starts from a checkpoint."""
    killed = (
        Goal("flowing_s", "s", 5, Bound.AT_MOST),
        Goal("noticed_s", "s"),
        Goal("restored_mb", "MB"),
        Goal("checkpoint_mb", "MB"),
    )
    rescaled = tuple(
        goal
        for parallelism in (4, 1)
        for goal in (
            Goal(f"to_{parallelism}_runs_s", "s"),
            Goal(f"to_{parallelism}_read_mb", "MB"),
            Goal(f"to_{parallelism}_read_share", "of its key groups", 1.0, Bound.AT_MOST),
        )
    )
    small = ("--state-mb", "5")
    return [
        Measurement(18, "kill -9 of a worker", "recovery", (), killed, steady=False, quick_options=small),
        Measurement(19, "2 → 4 → 1", "rescale", (), rescaled, steady=False, quick_options=small),
    ]


def _full_bases() -> list[Measurement]:
    """The two ways of writing all state."""
    told = (
        Goal("share", "of the speed"),
        Goal("longest_ms", "ms"),
        Goal("stop_ms", "ms"),
        Goal("seconds", "s"),
        Goal("extra_mb", "MB"),
    )
    return [
        Measurement(
            20,
            f"{size_mb:,} MB, {by}",
            "full_base",
            ("--state-mb", str(size_mb), "--by", by),
            told,
            steady=False,
            quick_options=("--state-mb", "20"),
        )
        for size_mb in FULL_SIZES_MB
        for by in ("thread", "child")
    ]


def _transports() -> list[Measurement]:
    figures = {"records_per_s": "records/s", "cpu_ns_per_record": "ns", "p50_ms": "ms", "p99_ms": "ms"}
    goals = tuple(
        goal
        for name, unit in figures.items()
        for goal in (Goal(f"pipes_{name}", unit), Goal(f"iterators_{name}", unit), Goal(f"{name}_ratio", "×"))
    )
    pairs = ("--pairs", "1")
    of_rows = tuple(
        goal
        for name in ("cpu_us", "trip_us")
        for goal in (Goal(f"pipes_{name}", "µs"), Goal(f"iterators_{name}", "µs"), Goal(f"{name}_ratio", "×"))
    )
    few = ("--rows", "500", "--rounds", "1")
    return [
        Measurement(21, "three pairs", "transport", (), goals, _CURVE_SECONDS, runs_max=1, quick_options=pairs),
        Measurement(21, "a row, no Spark", "transport_rows", (), of_rows, steady=False, quick_options=few),
    ]


def _payloads() -> list[Measurement]:
    """Shared memory, files on disk and Spark's rows by turns."""
    figures = {"mb_per_s": "MB/s", "jvm_ms_per_mb": "ms", "python_ms_per_mb": "ms"}
    to_reach = {"memory_mb_per_s": 1_200, "disk_mb_per_s": 800}
    goals = tuple(
        Goal(f"{way}_{name}", unit, to_reach.get(f"{way}_{name}"))
        for name, unit in figures.items()
        for way in ("rows", "memory", "disk")
    )
    return [Measurement(38, "by turns", "payloads", (), goals, _CURVE_SECONDS, runs_max=1, quick_options=_ONE_ROUND)]


_ONE_ROUND = ("--rounds", "1")

MEASUREMENTS = [
    *_throughput(),
    *CONNECTORS,
    *_latencies(),
    *_by_buffer_timeout(),
    *_in_flight(),
    *_in_flight_byrate_goal(),
    *_batches(),
    *_records(),
    *_start_and_idle(),
    *_curves(),
    *_checkpointing(),
    *_snapshots(),
    *_recoveries(),
    *_full_bases(),
    *_transports(),
    *_payloads(),
    *_requests(),
    *STATES,
]
