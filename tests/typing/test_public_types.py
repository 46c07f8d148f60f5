"""What mypy says of programs: those in `programs/` are read by mypy with --strict, and never run.

A line that must not check says so at its end: `# E: part of the error`. What is not marked must check. Types are
stated by `assert_type`, or by `reveal_type(...)  # N: the type`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))
EXPECTED = re.compile(r"# ([EN]): (.+?)(?=\s+# [EN]: |$)")
SAID = re.compile(r"(?P<path>.+?):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)")
KINDS = {"error": "E", "note": "N"}

Remarks = dict[tuple[str, int], list[tuple[str, str]]]
"""By file and line: the kind, E or N, and the text."""


@pytest.fixture(scope="module")
def said() -> Remarks:
    """What mypy says of all programs, in one run. With its cache, which `make lint` shares, that takes a second."""
    command = [sys.executable, "-m", "mypy", "--hide-error-context", *map(str, PROGRAMS)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    remarks: Remarks = defaultdict(list)
    for line in done.stdout.splitlines():
        if found := SAID.fullmatch(line):
            text = found["text"].removeprefix('Revealed type is "').removesuffix('"')
            remarks[Path(found["path"]).name, int(found["line"])].append((KINDS[found["kind"]], text))
    return remarks


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_what_mypy_says(program: Path, said: Remarks) -> None:
    """An editor would call a sound program wrong, or keep quiet about a function that does not fit its stream."""
    wrong = []
    for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), start=1):
        expected = EXPECTED.findall(line)
        found = said.get((program.name, number), [])
        # Notes that explain an error are mypy's affair.
        unexpected = [
            (kind, text)
            for kind, text in found
            if not any(kind == k and part in text for k, part in expected) and (kind == "E" or "reveal_type(" in line)
        ]
        missing = [(k, part) for k, part in expected if not any(kind == k and part in text for kind, text in found)]
        wrong += [f"{number}: mypy says {kind}: {text}" for kind, text in unexpected]
        wrong += [f"{number}: mypy does not say {kind}: {text}" for kind, text in missing]

    assert not wrong, "\n".join([program.name, *wrong])


def test_programs_that_must_not_check_are_among_them() -> None:
    """Types could become Any everywhere, and all programs would still check."""
    errors = [path.stem for path in PROGRAMS if "# E: " in path.read_text(encoding="utf-8")]

    assert errors == [path.stem for path in PROGRAMS]
