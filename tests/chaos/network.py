"""A network of one run's own, which can be cut. It needs root and network namespaces; without, it is the machine's."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

_UP = 'ip link set lo up && exec "$@"'


def is_possible() -> bool:
    """Whether this machine permits it."""
    try:
        return subprocess.run(apart(["true"]), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def apart(command: list[str]) -> list[str]:
    """A command in a network of its own. Its process is the command's."""
    return ["unshare", "--net", "sh", "-c", _UP, "sh", *command]


def beside(pid: int, command: list[str]) -> list[str]:
    """A command in the network of a process."""
    return ["nsenter", "--net", "--target", str(pid), "--", *command]


@contextlib.contextmanager
def cut(pid: int) -> Iterator[None]:
    """Nothing passes in the network of a process, the loopback included."""
    # The name stays valid when the process does not.
    with Path(f"/proc/{pid}/ns/net").open() as network:
        enter = ["nsenter", f"--net=/proc/self/fd/{network.fileno()}", "--", "ip", "link", "set", "lo"]
        subprocess.run([*enter, "down"], check=True, capture_output=True, pass_fds=[network.fileno()])
        try:
            yield
        finally:
            subprocess.run([*enter, "up"], check=True, capture_output=True, pass_fds=[network.fileno()])
