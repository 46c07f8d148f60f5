"""An ensemble of ZooKeeper servers on this machine, on the loopback, while a block or a command runs.

    python -m penstock.testing.zookeeper_ensemble

They are ordinary ZooKeeper servers, three by default. The command `mvn` fetches their jars once from Maven's
repository; they run on the Java that penstock would use for a job.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import find_java
from penstock.testing.loopback_server import LoopbackServer
from penstock.testing.maven_jars import maven_jars
from penstock.testing.server_process import LOOPBACK, free_ports, serve

VERSION = "3.9.3"
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>zookeeper-server</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>{VERSION}</version>
      <exclusions>
        <exclusion><groupId>io.netty</groupId><artifactId>netty-tcnative-boringssl-static</artifactId></exclusion>
        <exclusion><groupId>io.netty</groupId><artifactId>netty-transport-native-epoll</artifactId></exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version>
    </dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.30</version></dependency>
  </dependencies>
</project>
"""
_CHECKSUMS = """\
ffb101fc066360ff3c77457c927fd7967fb096a6ee9e046ab7071447d8208efc audience-annotations-0.12.0.jar
4aa4ca48f3dfd30b78220b7881d8cb93eac4093ec94361b6befa9487998a550b commons-io-2.17.0.jar
cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9 metrics-core-4.1.12.1.jar
a85c198180a8de997e8f64a62e054946a39af0708466c1bd67747d393d2feee1 netty-buffer-4.1.113.Final.jar
c7669cbeda2b5c6284627b7ffafd6f1014a96639013b26ebb9d6bcb828f76542 netty-codec-4.1.113.Final.jar
c0fb22d47111cb06aac2af67fe55e2e216a49fd00e767f4acb7488b280f8c327 netty-common-4.1.113.Final.jar
7a583c4fe5880504d1257a4a6bfe6a635cd34ffe18aab0e4caabbf17d104f172 netty-handler-4.1.113.Final.jar
b2c110a547e7dc6e2b27017ea4ef98416d7d832d2cf40625d0273b90e61df8ab netty-resolver-4.1.113.Final.jar
cb8b97ff77d7c5f1c591c84d2dee3389a0eaa63a3137b7b8c0c64e1dbada6688 netty-transport-4.1.113.Final.jar
804640095390c1284a1ad537207c6d5b391cfb798a7ef976e5b238fcd9c08ea3 netty-transport-native-unix-common-4.1.113.Final.jar
cdba07964d1bb40a0761485c6b1e8c2f8fd9eb1d19c53928ac0d7f9510105c57 slf4j-api-1.7.30.jar
8b9279cbff6b9f88594efae3cf02039b6995030eec023ed43928748c41670fee slf4j-simple-1.7.30.jar
0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b snappy-java-1.1.10.5.jar
ad6570105768d18382a762325b4460368b7089a5a77c053e682b17942e0e72b5 zookeeper-3.9.3.jar
be72e2c9099413a9878ce830b65bb22e0be755dc2a22b290550ab9e03b5b4cfa zookeeper-jute-3.9.3.jar
"""
_SHA256 = {name: digest for digest, name in map(str.split, _CHECKSUMS.splitlines())}
_JVM = (
    "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.4lw.commands.whitelist=srvr", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
)  # fmt: skip
# Sessions may last two to twenty ticks: one to ten seconds.
_CONFIGURATION = """\
tickTime=500
initLimit=20
syncLimit=8
dataDir={directory}/data
clientPortAddress={host}
clientPort={port}
quorumListenOnAllIPs=false
"""
_QUORUM_S = 60.0
_ASK_S = 2.0


class ZooKeeperServer(LoopbackServer):
    """A server of the ensemble. `servers`: ports of clients, quorum and elections of each; `number` is its own."""

    name = "the ZooKeeper server"
    ready = re.compile("binding to port")

    def __init__(self, number: int, servers: list[tuple[int, int, int]]) -> None:
        super().__init__()
        self._number = number
        self._servers = servers

    @property
    def port(self) -> int:
        """The port of clients."""
        return self._servers[self._number][0]

    @property
    def mode(self) -> str:
        """Return `leader` or `follower`, or an empty text if it does not run or has no quorum."""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), _ASK_S) as connection:
            connection.sendall(b"srvr")
            with connection.makefile("rb") as answer:
                found = re.search(rb"Mode: (\w+)", answer.read())
            return found[1].decode() if found is not None else ""
        return ""

    def _prepare(self) -> None:
        self._jars = maven_jars("ZooKeeper", f"zookeeper-{VERSION}", _POM, _SHA256)
        (self.directory / "data").mkdir()
        (self.directory / "data" / "myid").write_text(str(self._number))
        text = _CONFIGURATION.format(directory=self.directory, host=LOOPBACK, port=self.port)
        for number, (_, quorum, election) in enumerate(self._servers):
            text += f"server.{number}={LOOPBACK}:{quorum}:{election}\n"
        (self.directory / "zoo.cfg").write_text(text)

    def _command(self) -> list[str]:
        java = str(find_java(os.environ).path / "bin" / "java")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [java, *_JVM, "-cp", f"{self._jars}/*", main, str(self.directory / "zoo.cfg")]


class ZooKeeperEnsemble:
    """An ensemble that runs while its `with` block does. `quorum`: for `high-availability.zookeeper.quorum`."""

    def __init__(self, count: int = 3) -> None:
        ports = free_ports(3 * count)
        each = [(ports[3 * i], ports[3 * i + 1], ports[3 * i + 2]) for i in range(count)]
        self.servers = [ZooKeeperServer(number, each) for number in range(count)]
        self.quorum = ",".join(f"{LOOPBACK}:{server.port}" for server in self.servers)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            self.wait_for_quorum()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In parallel: the first ones can't form a quorum alone.
        for server in self.servers:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)
        self._stack.close()

    def wait_for_quorum(self) -> None:
        """Return when the servers have a leader. Raises ConfigurationError after a minute."""
        until_s = time.monotonic() + _QUORUM_S
        while not any(server.mode == "leader" for server in self.servers):
            if time.monotonic() > until_s:
                log = (Path(self.servers[0].directory) / "server.log").read_text(errors="replace")
                raise ConfigurationError(f"the ZooKeeper servers have no leader. The end of one log:\n{log[-1000:]}")
            time.sleep(0.1)


@contextlib.contextmanager
def zookeeper() -> Iterator[str]:
    """Run an ensemble and print its address, for trying things out."""
    with ZooKeeperEnsemble() as ensemble:
        yield f"high-availability.zookeeper.quorum={ensemble.quorum}"


if __name__ == "__main__":
    serve(zookeeper())
