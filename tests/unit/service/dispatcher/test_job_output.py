"""What a job's process prints: bounded on disk, and read by the byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.service.dispatcher.job_output import OutputGoneError, newest_output, output_files, part_of_output

PRINTS = """
import sys, threading
from pathlib import Path
from penstock.service.dispatcher.job_output import keep_bounded

folder, lines = Path(sys.argv[1]), int(sys.argv[2])
printing = threading.Thread(target=lambda: [print(f"line {number}") for number in range(lines)])
printing.start()
while printing.is_alive():
    keep_bounded(folder, 2_000)
keep_bounded(folder, 2_000)
print("last", file=sys.stderr)
"""


def prints(folder: Path, lines: int) -> bytes:
    """Run a process that prints while it begins new files; returns all that it has printed."""
    with newest_output(folder).open("ab") as output:
        command = [sys.executable, "-u", "-c", PRINTS, str(folder), str(lines)]
        subprocess.run(command, stdout=output, stderr=output, check=True)
    return b"".join(f"line {number}\n".encode() for number in range(lines)) + b"last\n"


def read(folder: Path, begin: int, most: int) -> bytes:
    """All from a byte on, in parts."""
    parts = []
    while part := part_of_output(folder, begin, most):
        parts.append(part)
        begin += len(part)
    return b"".join(parts)


def test_what_is_printed_is_read_as_one(tmp_path: Path) -> None:
    """Lines would be lost, or come twice, where a new file begins while a job prints."""
    assert part_of_output(tmp_path, 0, 100) == b"", "it has not begun"
    printed = prints(tmp_path, 300)
    assert len(output_files(tmp_path)) == 2
    first = output_files(tmp_path)[0].begin
    assert read(tmp_path, first, 7) == printed[first:] == read(tmp_path, first, 1 << 20)
    assert read(tmp_path, len(printed) - 5, 7) == b"last\n"


def test_only_the_newest_is_kept(tmp_path: Path) -> None:
    """A job that prints for days would fill the disk of its cluster, and all its neighbours' checkpoints fail."""
    # Twice: on a machine that is busy, one process may have printed all before it looks for the first time.
    printed = prints(tmp_path, 3_000) + prints(tmp_path, 3_000)
    files = output_files(tmp_path)
    assert len(files) == 2 and len(printed) > 40_000
    with pytest.raises(OutputGoneError) as gone:
        part_of_output(tmp_path, 0, 100)
    assert gone.value.begin == files[0].begin > 0
    assert read(tmp_path, files[0].begin, 1 << 20) == printed[files[0].begin :]


def test_a_process_that_goes_on_with_a_job_writes_on(tmp_path: Path) -> None:
    """What it prints would come before what was printed before, and be taken for that."""
    before = prints(tmp_path, 300)
    after = prints(tmp_path, 10)
    begin = output_files(tmp_path)[0].begin
    assert read(tmp_path, begin, 1 << 20) == (before + after)[begin:]


def test_a_folder_in_the_place_of_an_output_is_none(tmp_path: Path) -> None:
    """Whoever looks at what a job has printed would get an error of the server's."""
    (tmp_path / "output").mkdir()
    (tmp_path / "output.00000000003").write_bytes(b"more")
    assert part_of_output(tmp_path, 3, 100) == b"more"
