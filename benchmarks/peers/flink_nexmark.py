"""Run SQL statements in Flink in Java: FlinkNexmark.java, with the jars of PyFlink's wheel."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import PLACE, compiled, flink_home
from penstock.hosts.spark.driver.java import find_java

_OPENS = ("java.base/java.util", "java.base/java.lang", "java.base/java.time", "java.base/java.nio")


def run(
    options: Mapping[str, str],
    setup: Sequence[str],
    queries: Sequence[Mapping[str, Any]],
    *,
    jars: Sequence[Path] = (),
    heap: str = "4g",
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each query of one process, as FlinkNexmark.java describes them.

    `jars`: connectors. Raises NotThereError without PyFlink or a JDK, RuntimeError if Flink ends before its time.
    """
    home = flink_home()
    libraries = f"{home / 'lib'}/*"
    jar = compiled("FlinkNexmark", libraries, PLACE)
    java = find_java(os.environ).path / "bin" / "java"
    with tempfile.TemporaryDirectory(prefix="flink-nexmark-") as temporary:
        task = Path(temporary, "task.json")
        task.write_text(json.dumps({"options": options, "setup": setup, "queries": queries}), encoding="utf-8")
        opens = [part for one in _OPENS for part in ("--add-opens", f"{one}=ALL-UNNAMED")]
        path = os.pathsep.join([*map(str, (jar, *jars)), libraries])
        command = [str(java), f"-Xmx{heap}", *opens, "-Duser.timezone=UTC", "-cp", path, "FlinkNexmark", str(task)]
        said = Path(temporary, "stderr")
        with (
            said.open("w") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        if process.returncode:
            raise RuntimeError(f"Flink ended with {process.returncode}:\n{said.read_text()[-2000:]}")
