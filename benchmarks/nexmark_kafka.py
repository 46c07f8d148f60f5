"""Nexmark from Kafka to Kafka, JSON and exactly once, on penstock and on Flink SQL in Java, one beside the other.

python -m benchmarks.nexmark_kafka --events 1000000 --only q0,q5,q9,q15,q18,q20

One broker on this machine has all events in a topic with two partitions. A query reads it to its end and writes to a
topic of its own, with a checkpoint each second, two subtasks and state on the heap. An event costs what a run over all
events takes more than one over a quarter of them, of the CPU time of all processes but the broker. Both topics must
have as many rows (of updates: keys) then. `q0 rows` is the same query as a DataStream of dicts. `--nexmark`: see
nexmark_beside_flink.py. Writes build/bench-nexmark-kafka.json and the table build/bench-nexmark-kafka.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.nexmark_beside_flink import FLINK, ROOT, cost
from benchmarks.nexmark_penstock import MINI_BATCH
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table
from benchmarks.peers.environments import NotThereError, flink_home
from benchmarks.peers.flink_nexmark import run as run_in_flink
from benchmarks.peers.kafka import kafka_connector
from penstock.testing.kafka_broker import KafkaBroker

PARTITIONS = 2
ROWS = "q0 rows"
"""Of the query that is a DataStream of dicts."""
_KEYS = {"q9": ("id",), "q15": ("day",), "q18": ("auction", "bidder")}
"""The queries whose results have updates, with the columns that are their keys."""
_NAMES = ("q0", "q5", "q9", "q15", "q18", "q20", ROWS)
_SECONDS = 1_800
_END_S = 10.0


class Topics(NamedTuple):
    """The topics that a run reads and writes."""

    read: str
    written: str


def statements(name: str, bootstrap: str, topics: Topics) -> tuple[list[str], str]:
    """Return the statements before a query, and the insertion."""
    servers = {"properties.bootstrap.servers": bootstrap}
    source = {"connector": "kafka", "topic": topics.read, **servers, "format": "json"}
    source |= {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    return [events_table(source), *VIEWS, _sink(name, servers, topics)], f"INSERT INTO {name} {QUERIES[name].sql}"


def _sink(name: str, servers: Mapping[str, str], topics: Topics) -> str:
    options = {"topic": topics.written, **servers, "sink.delivery-guarantee": "exactly-once"}
    options |= {"sink.transactional-id-prefix": topics.written, "properties.transaction.timeout.ms": "600000"}
    key = ""
    if name in _KEYS:
        key = f", PRIMARY KEY ({', '.join(f'`{column}`' for column in _KEYS[name])}) NOT ENFORCED"
        options |= {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    else:
        options |= {"connector": "kafka", "format": "json"}
    shown = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    return f"CREATE TABLE {name} ({QUERIES[name].columns}{key}) WITH ({shown})"


def create_topic(bootstrap: str, topic: str) -> None:
    """Create a topic that keeps its messages, whose times are those of the events. Raises KafkaException."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})])[topic].result(60)


def committed(bootstrap: str, topic: str, *, of_keys: bool) -> int:
    """Return the number of messages that a reader of committed ones sees, or that of their keys."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    count, keys, at_end = 0, set[bytes](), set[int]()
    try:
        while len(at_end) < PARTITIONS:
            for message in consumer.consume(10_000, _END_S):
                error = message.error()
                if error is None:
                    count += 1
                    keys.add(message.key() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                else:
                    raise RuntimeError(str(error))
    finally:
        consumer.close()
    return len(keys) if of_keys else count


class Bench:
    """Runs queries against a broker that has the events. `folder`: for checkpoints."""

    def __init__(self, bootstrap: str, events: int, folder: Path, options: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        self._events = events
        self._folder = folder
        self._options = dict(options)
        self._runs = 0
        self._read = {count: f"events-{count}" for count in (events // 4, events)}

    def fill(self) -> None:
        """Write the events, a quarter of them and all."""
        for count, topic in self._read.items():
            create_topic(self._bootstrap, topic)
            self._job("fill", {"events": count, "written": topic})

    def of_penstock(self, name: str) -> dict[str, Any]:
        """Return the figures of a query, or an error."""
        runs = list(self._topics())
        try:
            lines = self._job(name, {"runs": [one._asdict() for one in runs]})
        except RuntimeError as error:
            return {"error": str(error)}
        return self._figures(name, lines, runs[-1])

    def of_flink(self, name: str, connector: Path) -> dict[str, Any]:
        """Return the same of Flink."""
        runs, queries = list(self._topics()), []
        for one in runs:
            setup, insert = statements(name, self._bootstrap, one)
            queries.append({"name": name, "setup": setup, "insert": insert})
        options = {**FLINK, **self._options, **self._checkpoints("flink")}
        options |= {"execution.checkpointing.mode": "EXACTLY_ONCE"}
        answers = list(run_in_flink(options, [], queries, jars=[connector]))
        for answer in answers:
            if "error" in answer:
                return {"error": answer["error"]}
        return self._figures(name, answers, runs[-1])

    def _topics(self) -> Iterator[Topics]:
        """Create what the three runs of a query write: the first one warms up."""
        for count in (self._events // 4, self._events // 4, self._events):
            self._runs += 1
            topics = Topics(self._read[count], f"results-{self._runs}")
            create_topic(self._bootstrap, topics.written)
            yield topics

    def _figures(self, name: str, runs: Sequence[Mapping[str, Any]], last: Topics) -> dict[str, Any]:
        rows = committed(self._bootstrap, last.written, of_keys=name in _KEYS)
        return {**cost({"short": runs[1], "long": runs[2]}, self._events), "rows": rows}

    def _checkpoints(self, engine: str) -> dict[str, str]:
        place = (self._folder / f"{engine}-{self._runs}").as_uri()
        return {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": place}

    def _job(self, name: str, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run jobs in a process of their own, and return the lines it has printed. Raises RuntimeError."""
        task = {"name": name, "bootstrap": self._bootstrap, **what}
        # On a machine so busy that Spark takes minutes to start, CPU times still mean something.
        job_options = {**self._checkpoints("penstock"), "penstock.spark.start-timeout": "20 min"}
        task |= {"options": self._options, "job_options": job_options}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.nexmark_kafka_job"],
            input=json.dumps(task),
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1])
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def table_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures as a table in Markdown, with the geometric mean of the ratios of CPU time."""
    lines = [
        "| query | penstock, µs of CPU (wall clock) an event | Flink | ratio of CPU time | the same rows |",
        "| --- | --- | --- | --- | --- |",
    ]
    ratios = []
    for row in rows:
        ours, flinks = row["penstock"], row["flink"]
        ratio = same = ""
        if flinks and all(one.get("cpu_us", 0) > 0 for one in (ours, flinks)):
            ratios.append(flinks["cpu_us"] / ours["cpu_us"])
            ratio, same = f"{ratios[-1]:.2f}", "yes" if ours["rows"] == flinks["rows"] else "no"
        lines.append(f"| {row['query']} | {_cell(ours)} | {_cell(flinks)} | {ratio} | {same} |")
    if ratios:
        lines.append(f"| geometric mean of {len(ratios)} | | | **{statistics.geometric_mean(ratios):.2f}** | |")
    return "\n".join(lines) + "\n"


def _cell(figures: Mapping[str, Any]) -> str:
    if not figures:
        return ""
    return "not executed" if "error" in figures else f"{figures['cpu_us']:.2f} ({figures['wall_us']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--only", default=",".join(_NAMES), help="queries, separated by commas")
    parser.add_argument("--mini-batch", action="store_true", help="with the configuration that Nexmark publishes")
    parser.add_argument("--without-flink", action="store_true")
    arguments = parser.parse_args()
    connector = None
    if not arguments.without_flink:
        try:
            flink_home()
        except NotThereError as error:
            raise SystemExit(f"Flink can't be measured here: {error}") from None
        connector = kafka_connector()
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    with KafkaBroker() as broker, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        options = MINI_BATCH if arguments.mini_batch else {}
        bench = Bench(broker.bootstrap, arguments.events, Path(folder), options)
        bench.fill()
        for name in arguments.only.split(","):
            ours = bench.of_penstock(name)
            flinks = bench.of_flink(name, connector) if connector is not None and name != ROWS else {}
            rows.append({"query": name, "penstock": ours, "flink": flinks})
            print(json.dumps(rows[-1]), flush=True)
            document = {"events": arguments.events, "mini_batch": arguments.mini_batch, "rows": rows}
            (build / "bench-nexmark-kafka.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
            (build / "bench-nexmark-kafka.md").write_text(table_of(rows), encoding="utf-8")
    print(table_of(rows))


if __name__ == "__main__":
    main()
