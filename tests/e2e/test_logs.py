"""The logs of a job: what a user finds there after a run, and where."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]
PENSTOCK = str(Path(sys.executable).with_name("penstock"))
JOB = """
import logging
import sys

from penstock.datastream import StreamExecutionEnvironment

FAILS = "fail" in sys.argv


def see(word):
    print("saw", word)
    logging.getLogger("words").info("length %d", len(word))
    logging.getLogger("words").debug("unimportant")
    return word, 1


def count(a, b):
    if FAILS:
        raise ValueError("can't count")
    return a[0], a[1] + b[1]


env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
words = env.from_collection(["to", "be", "to"]).map(see).name("words")
words.key_by(lambda pair: pair[0]).reduce(count).name("counts").print()
env.execute("word count")
"""


def penstock_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with a cache of its own, but for what takes long to make again."""
    cache = folder / "cache" / "penstock"
    if not cache.exists():
        cache.mkdir(parents=True)
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "penstock")
        for entry in home.glob("*"):
            if entry.name not in ("jobs", "logs"):
                (cache / entry.name).symlink_to(entry)
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "penstock.service.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder, env=environ)


def without_times(text: str) -> list[str]:
    return [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", line) for line in text.splitlines()]


def test_a_job_that_fails_says_where_its_logs_are(tmp_path: Path) -> None:
    """What functions printed before a failure is what explains it, and it scrolls away, or was on another machine."""
    (tmp_path / "job.py").write_text(JOB)
    failed = penstock_command(tmp_path, "run", "job.py", "fail")

    assert failed.returncode == 1
    (place,) = re.findall(r"^Logs of the job: (.+)$", failed.stderr, re.MULTILINE)
    # On the terminal, too.
    assert re.search(r"^\[words \([12]/2\)\] saw to$", failed.stderr, re.MULTILINE)
    assert {path.name for path in Path(place).iterdir()} >= {"driver.log", "jvm.log", "level-0-slot-0.log", "job.json"}

    logs = penstock_command(tmp_path, "logs", "word count")
    assert logs.stderr == f"logs in {place}\n"
    lines = without_times(logs.stdout)
    assert [
        line
        for line in lines
        if re.fullmatch(r"level-\d-slot-\d: INFO +\[[0-9a-f]{8} words \([12]/2\)\] stdout - saw to", line)
    ]
    assert [line for line in lines if re.search(r"INFO +\[[0-9a-f]{8} words \([12]/2\)\] words - length 2", line)]
    assert "ValueError: can't count" in logs.stdout
    assert "unimportant" not in logs.stdout
    assert [
        line
        for line in lines
        if line.startswith("driver: ERROR   [") and "penstock.job - the job has ended: FAILED" in line
    ]


@pytest.mark.soak
def test_settings_of_logs_in_batch_mode(tmp_path: Path) -> None:
    """On a cluster the directory has to be one that others read; and a batch job is as hard to follow as any."""
    (tmp_path / "job.py").write_text(JOB)
    options = ["env.log.dir=chosen", "env.log.level=DEBUG", "execution.runtime-mode=BATCH"]
    done = penstock_command(tmp_path, "run", "-q", *(part for option in options for part in ("-D", option)), "job.py")

    assert (done.returncode, sorted(done.stdout.split("\n"))) == (0, ["", "1> ('be', 1)", "2> ('to', 2)"])
    place = Path(penstock_command(tmp_path, "logs", "--path").stdout.strip())
    assert place.parent == tmp_path / "chosen"
    text = "\n".join(path.read_text() for path in place.glob("level-*.log"))
    assert text.count("stdout - saw") == 3
    assert text.count("words - unimportant") == 3
    assert "the job has ended: FINISHED" in (place / "driver.log").read_text()
