"""Run the programs of `benchmarks/patterns.py` in Flink in Java: FlinkPatterns.java, with PyFlink's jars."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import PLACE, compiled, flink_home
from penstock.hosts.spark.driver.java import find_java

_OPENS = ("java.base/java.util", "java.base/java.lang", "java.base/java.time", "java.base/java.nio")
_HEAP = "4g"


def run(
    program: str, events: Sequence[int], kinds: str, *, keys: int, match_rows: int | None, statement: str | None
) -> list[dict[str, Any]]:
    """Return the answers to runs over so many events, as FlinkPatterns.java describes them.

    Raises NotThereError without PyFlink or a JDK, RuntimeError if Flink fails.
    """
    libraries = f"{flink_home() / 'lib'}/*"
    jar = compiled("FlinkPatterns", libraries, PLACE)
    java = find_java(os.environ).path / "bin" / "java"
    with tempfile.TemporaryDirectory(prefix="flink-patterns-") as temporary:
        task, of_kinds = Path(temporary, "task.json"), Path(temporary, "kinds")
        of_kinds.write_text(kinds, encoding="utf-8")
        document = {"program": program, "statement": statement, "events": list(events), "kinds": str(of_kinds)}
        task.write_text(json.dumps({**document, "keys": keys, "match_rows": match_rows}), encoding="utf-8")
        opens = [part for one in _OPENS for part in ("--add-opens", f"{one}=ALL-UNNAMED")]
        path = os.pathsep.join([str(jar), libraries])
        done = subprocess.run(
            [str(java), f"-Xmx{_HEAP}", *opens, "-Duser.timezone=UTC", "-cp", path, "FlinkPatterns", str(task)],
            capture_output=True,
            text=True,
            check=False,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors or done.returncode:
        raise RuntimeError(f"Flink failed: {errors or done.stderr[-2000:]}")
    return answers
