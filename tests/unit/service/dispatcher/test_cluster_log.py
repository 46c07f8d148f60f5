"""The log of a cluster: bounded, for all that have it open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.service.cluster.running_cluster import LOG

WRITES = """
import os, sys
from pathlib import Path
from penstock.service.dispatcher.cluster_log import keep_bounded

folder = Path(sys.argv[1])
for number in range(100):
    # As Spark's JVM, which has inherited it.
    os.system(f"echo line {number} >&2")
    keep_bounded(folder, 300)
"""


def test_it_is_bounded_and_goes_on_in_its_place(tmp_path: Path) -> None:
    """A cluster that runs for months would fill its disk, or what the JVM says go to a file that nobody sees."""
    with (tmp_path / LOG).open("ab") as log:
        subprocess.run([sys.executable, "-c", WRITES, str(tmp_path)], stderr=log, check=True)
    kept = [(tmp_path / name).read_text() for name in (f"{LOG}.1", LOG)]
    lines = "".join(kept).splitlines()
    assert lines == [f"line {number}" for number in range(100 - len(lines), 100)]
    assert 300 <= len(kept[0]) < 400 and len(kept[1]) < 400
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOG, f"{LOG}.1"]


def test_a_log_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    """A cluster in the foreground would cut off what an earlier one has written."""
    (tmp_path / LOG).write_text("line\n" * 1000)
    program = f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n{WRITES}"
    subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=True)
    assert [path.name for path in tmp_path.iterdir()] == [LOG]
    assert (tmp_path / LOG).read_text() == "line\n" * 1000
