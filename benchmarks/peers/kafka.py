"""Kafka → keyed count → Kafka beside Flink in Java and PyFlink with Flink's connector, on one broker, in one run.

    python -m benchmarks.peers.kafka --records 1500000

JSON values of 200 bytes, a checkpoint each second, at parallelism 2. Each peer reads the same topic from its beginning
on and writes to one of its own. What counts is what a reader of committed messages sees at the end of that topic, from
a fifth of the records on: no peer is asked for its own figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka import IN, fill
from benchmarks.own_processes import own_processes
from benchmarks.peers.environments import HERE, PLACE, Environments, compiled, prepare
from benchmarks.peers.measuring import FailedError
from penstock.testing.kafka_broker import KafkaBroker
from penstock.testing.maven_jars import maven_jars

PARTITIONS = 2
CONNECTOR = "5.0.0-2.2"
"""The newest one; made for Flink 2.2, and used with 2.3."""
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>flink-kafka</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.flink</groupId><artifactId>flink-sql-connector-kafka</artifactId><version>{CONNECTOR}</version>
    </dependency>
  </dependencies>
</project>
"""
_GUARANTEES = ("AT_LEAST_ONCE", "EXACTLY_ONCE")
_WARM_PART = 0.2
_POLL_S = 0.05
_LIMIT_S = 170
_SHOWN = 3000


@dataclass(frozen=True)
class Peer:
    """A program to measure. `part`: of the records that it is given; the slower ones are given fewer."""

    name: str
    environment: str
    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    part: float = 1


def peers(environments: Environments, connector: Path) -> Iterator[Peer]:
    """Those that can run here."""
    python = environments.python
    yield Peer("penstock", "penstock", (str(python["penstock"]), str(HERE / "penstock_kafka_jobs.py")))
    if "pyflink" in python:
        assert environments.flink_lib is not None
        jar = compiled("FlinkKafka", f"{environments.flink_lib}/*:{connector}", PLACE)
        java = str(Path(environments.variables["JAVA_HOME"], "bin", "java"))
        classes = f"{jar}:{connector}:{environments.flink_lib}/*"
        yield Peer("Flink in Java", "flink-java", (java, "-Xmx2g", "-cp", classes, "FlinkKafka"))
        program = (str(python["pyflink"]), str(HERE / "pyflink_kafka_jobs.py"))
        for name, size in (("PyFlink, as it comes", -1), ("PyFlink, bundles of 100,000", 100_000)):
            yield Peer(name, "pyflink", program, (str(connector), str(size)), 0.2)


def kafka_connector() -> Path:
    """Return the jar of Flink's connector, fetching it the first time. Raises ConfigurationError without Maven."""
    jars = maven_jars("Flink's connector for Kafka", f"flink-kafka-{CONNECTOR}", _POM)
    return next(jars.glob("flink-sql-connector-kafka-*.jar"))


class Ends:
    """Of a topic: how many messages it has that a reader of committed ones sees, by its offsets."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Consumer, TopicPartition
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        settings = {"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"}
        self._consumer = Consumer(settings)

    def count(self) -> int:
        """Now. Of transactions their ends count, too: two a second."""
        return sum(self._consumer.get_watermark_offsets(one, timeout=30)[1] for one in self._partitions)


def rate(peer: Peer, environments: Environments, broker: KafkaBroker, guarantee: str, records: int) -> float:
    """Records per second, from a fifth of them on. Raises FailedError."""
    topic = f"{peer.environment}-{guarantee}-{time.monotonic_ns()}".lower().replace("_", "-")
    ends = Ends(broker.bootstrap, topic)
    command = [*peer.program, broker.bootstrap, IN, topic, guarantee, *peer.options]
    with (
        own_processes() as mark,
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        tempfile.TemporaryFile("w+") as said,
    ):
        variables = {**os.environ, **environments.variables_of(peer.environment), **mark}
        program = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=variables, cwd=folder
        )
        try:
            return _observed(ends, program, int(records * peer.part))
        except FailedError as error:
            said.seek(0)
            raise FailedError(f"{error}\n{said.read()[-_SHOWN:]}") from None
        finally:
            program.kill()
            program.wait()


def _observed(ends: Ends, program: subprocess.Popen[bytes], records: int) -> float:
    limit_s = time.monotonic() + _LIMIT_S
    began_s, first = 0.0, 0
    while (now_s := time.monotonic()) < limit_s:
        count = ends.count()
        if not began_s and count > records * _WARM_PART:
            began_s, first = now_s, count
        if count >= records:
            return (count - first) / (now_s - began_s) if now_s > began_s else float("nan")
        if program.poll() is not None:
            raise FailedError(f"exited with {program.returncode}")
        time.sleep(_POLL_S)
    if not began_s:
        raise FailedError(f"{ends.count()} of {records} records in {_LIMIT_S} s")
    return (ends.count() - first) / (time.monotonic() - began_s)


def main() -> None:
    """Measure all of them, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=1_500_000)
    parser.add_argument("--guarantee", choices=_GUARANTEES, action="append", help="both without")
    parser.add_argument("--only", default="", help="peers whose names begin so")
    arguments = parser.parse_args()
    environments = prepare(["penstock", "pyflink", "flink-java"])
    connector = kafka_connector()
    with KafkaBroker() as broker:
        fill(broker.bootstrap, PARTITIONS, arguments.records)
        for guarantee in arguments.guarantee or _GUARANTEES:
            for peer in peers(environments, connector):
                if not peer.name.startswith(arguments.only):
                    continue
                try:
                    result: dict[str, object] = {
                        "records_per_s": round(rate(peer, environments, broker, guarantee, arguments.records))
                    }
                except FailedError as error:
                    result = {"failed": str(error)}
                print(json.dumps({"peer": peer.name, "guarantee": guarantee, **result}), flush=True)


if __name__ == "__main__":
    main()
