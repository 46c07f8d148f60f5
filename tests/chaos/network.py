"""A network of one run's own, to be cut and slowed down. It needs root, namespaces, `tc` and `ss`."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

_UP = 'ip link set lo up && exec "$@"'


def is_possible() -> bool:
    """Whether this machine permits it."""
    try:
        tried = "tc qdisc add dev lo root tbf rate 1mbit burst 128kb limit 8mb && ss --tcp --kill state established"
        return subprocess.run(apart(["sh", "-c", tried]), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def apart(command: list[str]) -> list[str]:
    """A command in a network of its own. Its process is the command's."""
    return ["unshare", "--net", "sh", "-c", _UP, "sh", *command]


def beside(pid: int, command: list[str]) -> list[str]:
    """A command in the network of a process."""
    return ["nsenter", "--net", "--target", str(pid), "--", *command]


@contextlib.contextmanager
def down(pid: int) -> Iterator[None]:
    """Nothing passes in the network of a process, the loopback included."""
    with _inside(pid) as run:
        run("ip", "link", "set", "lo", "down")
        try:
            yield
        finally:
            run("ip", "link", "set", "lo", "up")


@contextlib.contextmanager
def slow(pid: int, kilobits: int) -> Iterator[None]:
    """So much passes a second; the rest waits, up to megabytes of it, and is lost when the context ends."""
    with _inside(pid) as run:
        run("tc", "qdisc", "add", "dev", "lo", "root", *f"tbf rate {kilobits}kbit burst 128kb limit 8mb".split())
        try:
            yield
        finally:
            run("tc", "qdisc", "del", "dev", "lo", "root")


def cut_connections(pid: int, random: Random) -> bool:
    """Both ends of all connections to one port are told that they are aborted. False: there is none."""
    with _inside(pid) as run:
        lines = run("ss", "--tcp", "--numeric", "--no-header", "state", "established").splitlines()
        ports = sorted({line.split()[2].rpartition(":")[2] for line in lines})
        if not ports:
            return False
        port = random.choice(ports)
        run("ss", "--tcp", "--kill", "state", "established", f"( sport = :{port} or dport = :{port} )")
        return True


@contextlib.contextmanager
def _inside(pid: int) -> Iterator[Callable[..., str]]:
    """Runs commands in the network of a process. Raises FileNotFoundError if it is gone."""
    # The name stays valid when the process does not.
    with Path(f"/proc/{pid}/ns/net").open() as network:

        def run(*command: str) -> str:
            entered = ["nsenter", f"--net=/proc/self/fd/{network.fileno()}", "--", *command]
            done = subprocess.run(entered, check=True, capture_output=True, text=True, pass_fds=[network.fileno()])
            return done.stdout

        yield run
