"""Flink's own tests of its SQL, as data: programs, compiled plans and cases of functions.

    python -m tests.table.flink_cases

reads them from the jar `org.apache.flink:flink-table-planner_2.12:tests`, which Maven fetches, into `build/`. It needs
Maven and a JDK. Tests also find them in `../shared/data/flink-table-tests`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.hosts.spark.driver.java import find_java
from penstock.table.planner.jars import FLINK

ROOT = Path(__file__).parents[2]
PROGRAMS, PLANS, FUNCTIONS = "programs.jsonl.gz", "plans.jsonl.gz", "functions.jsonl.gz"
_FETCHED = ROOT / "build" / "flink-table-tests"
_SHARED = ROOT.parent / "shared" / "data" / "flink-table-tests"
_SOURCES = Path(__file__).parent / "flink_tests"
_SECONDS = 900


def cases_of(name: str) -> Path:
    """Return the file with these cases. It may not exist: then tests are skipped with `ABSENT`."""
    fetched = _FETCHED / name
    return fetched if fetched.exists() else _SHARED / name


ABSENT = "Flink's tests are not here: run `make test-flink-sql`, which fetches them"


def fetch() -> None:
    """Read the cases from Flink's jar, unless they are there. Raises SystemExit without Maven or a JDK."""
    if all((_FETCHED / name).exists() for name in (PROGRAMS, PLANS, FUNCTIONS)):
        return
    maven = shutil.which("mvn")
    java = find_java(os.environ).path / "bin"
    if maven is None or not (java / "javac").exists():
        raise SystemExit(
            f"Flink's tests are fetched by Maven and read by a JDK: mvn is {maven or 'not on the PATH'}, and there is "
            f"{'a' if (java / 'javac').exists() else 'no'} compiler in {java}. Set JAVA_HOME to a JDK"
        )
    _FETCHED.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FETCHED.parent, prefix="flink-table-tests-") as temporary:
        jars, found = Path(temporary, "jars"), Path(temporary, "found")
        found.mkdir()
        print("Fetching Flink's tests (270 MB of jars; a minute) ...", file=sys.stderr, flush=True)
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", f"-Dflink={FLINK}"]
        _run([maven, "-q", "-B", "-f", str(_SOURCES / "pom.xml"), *copy])
        tests = jars / f"flink-table-planner_2.12-{FLINK}-tests.jar"
        program = ["-Duser.timezone=UTC", "-cp", f"{jars}/*", str(_SOURCES / "FlinkTests.java")]
        _run([str(java / "java"), *program, str(tests), str(found)])
        shutil.rmtree(_FETCHED, ignore_errors=True)
        found.rename(_FETCHED)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{(done.stdout + done.stderr).strip()[-1500:]}")


if __name__ == "__main__":
    fetch()
