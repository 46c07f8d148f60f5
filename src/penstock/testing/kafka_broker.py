"""A Kafka broker on this machine, in one process, on the loopback, while a block or a command runs.

    python -m penstock.testing.kafka_broker

It is a single broker of Kafka 4 in KRaft mode, with all features of a production broker, including transactions. The
command `mvn` fetches its jars once from Maven's repository; it runs on the Java that penstock would use for a job.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.hosts.spark.driver.java import find_java
from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.maven_jars import maven_jars
from penstock.testing.server_process import LOOPBACK, free_ports, serve

VERSION = "4.1.0"
_SLF4J = "1.7.36"
_CLUSTER = "penstock-on-loopback00"
_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>kafka-broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>{_SLF4J}</version></dependency>
  </dependencies>
</project>
"""
# There are as many replicas as brokers; a killed broker returns when its session has expired. Consumers do not wait for
# others of their group. The broker checks for expired transactions twice a second instead of every ten seconds.
_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={directory}
auto.create.topics.enable={creates_topics}
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
offsets.topic.num.partitions=1
offsets.topic.replication.factor={replicas}
transaction.state.log.num.partitions={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
default.replication.factor={replicas}
min.insync.replicas={in_sync}
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
"""
_SECURED = """\
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port},SECURED://{host}:{secured_port}
advertised.listeners=PLAINTEXT://{host}:{port},SECURED://{host}:{secured_port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL
listener.name.secured.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secured.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
listener.name.secured.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secured.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={key_and_certificate}
"""


class Secured(NamedTuple):
    """Settings of a second listener: TLS, and authentication by SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512).

    `key_and_certificate`: a file with the broker's private key (PKCS#8) and certificate, both as PEM.
    """

    user: str
    password: str
    key_and_certificate: Path


class Node(NamedTuple):
    """A broker of a cluster: its number, from 1, and the ports of all brokers."""

    number: int
    ports: Sequence[int]
    controller_ports: Sequence[int]

    def fields(self) -> dict[str, object]:
        """Return the properties about the cluster. A majority of the replicas must confirm a write."""
        count = len(self.ports)
        voters = [f"{number}@{LOOPBACK}:{port}" for number, port in enumerate(self.controller_ports, 1)]
        return {
            "node": self.number,
            "voters": ",".join(voters),
            "port": self.ports[self.number - 1],
            "controller_port": self.controller_ports[self.number - 1],
            "replicas": count,
            "in_sync": count // 2 + 1,
        }


class KafkaBroker(LoopbackServer):
    """A broker that runs while its `with` block does. `bootstrap`: for `bootstrap.servers`.

    `secured`: adds a listener with these settings, at `secured_bootstrap`. `creates_topics`: create missing topics on
    write. `node`: the broker's place in a cluster; None: it is alone.
    """

    name = "the Kafka broker"
    ready = re.compile("Kafka Server started")

    def __init__(self, secured: Secured | None = None, creates_topics: bool = False, node: Node | None = None) -> None:
        super().__init__()
        self._node = node
        self._creates_topics = creates_topics
        self.bootstrap = ""
        self.secured_bootstrap = ""
        self.secured = secured

    def _prepare(self) -> None:
        jars = broker_jars()
        self._java = [str(find_java(os.environ).path / "bin" / "java"), *_OPTIONS, "-cp", f"{jars}/*"]
        self._properties = self.directory / "server.properties"
        self._properties.write_text(self._configuration())
        storage = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
        if self.secured is not None:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                name_and_password = f"name={self.secured.user},password={self.secured.password}"
                storage += ["--add-scram", f"{mechanism}=[{name_and_password}]"]
        subprocess.run([*self._java, *storage], check=True, capture_output=True, cwd=self.directory)

    def _command(self) -> list[str]:
        return [*self._java, "kafka.Kafka", str(self._properties)]

    def _configuration(self) -> str:
        port, controller_port, secured_port = free_ports(3)
        node = self._node or Node(1, [port], [controller_port])
        self.bootstrap = f"{LOOPBACK}:{node.ports[node.number - 1]}"
        fields = {
            **node.fields(),
            "host": LOOPBACK,
            "directory": self.directory / "data",
            "creates_topics": str(self._creates_topics).lower(),
        }
        if self.secured is None:
            return _PROPERTIES.format(**fields)
        self.secured_bootstrap = f"{LOOPBACK}:{secured_port}"
        # Later properties override earlier ones.
        return (_PROPERTIES + _SECURED).format(**fields, **self.secured._asdict(), secured_port=secured_port)


def broker_jars() -> Path:
    """Return the directory with the broker's jars in the user's cache, fetching them the first time (54 MB).

    Raises ConfigurationError if they are unavailable, for example without Maven.
    """
    return maven_jars("the Kafka broker", f"kafka-{VERSION}", _POM)


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """Run a broker and print its address, for trying things out."""
    with KafkaBroker(creates_topics=True) as broker:
        yield f"bootstrap.servers={broker.bootstrap}"


if __name__ == "__main__":
    serve(kafka())
