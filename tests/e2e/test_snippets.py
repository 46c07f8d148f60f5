"""Every program of the documentation runs as pasted: as a script, in both modes, and a second time in the same folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.snippets import PROGRAMS, ROOT, Snippet

from penstock.cli.options import program_context
from penstock.cli.script import run_script

pytestmark = [pytest.mark.e2e, pytest.mark.spark]
PRINTED = {
    "README": ["('question', 1)", "('be', 2)"],
    "checkpoints": ["3"],
    "connectors": ["{'airport': 'JFK', 'delay': 90}", "(1, 'JFK', 90.0)", "[('JFK', 90.0), ('LGA', 5.0)]"],
    "state-processor": ["airport-delay"],
    "testing": ["operator 'KeyedProcess' left [] in the state 'items' of key 'ada'"],
}
"""Parts of what the programs of a page print."""


def run(snippet: Snippet, mode: str) -> None:
    Path("job.py").write_text(snippet.program)
    with program_context({"execution.runtime-mode": mode}):
        run_script(Path("job.py"), [])


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("snippet", PROGRAMS, ids=str)
def test_a_program_of_the_documentation_runs(
    snippet: Snippet, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing that a newcomer does would fail."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        run(snippet, mode)
    printed = capsys.readouterr().out
    assert any(part in printed for part in PRINTED[snippet.page]), printed


def test_all_that_is_said_to_be_printed_is() -> None:
    """The pages would show what the programs do not do."""
    assert {snippet.page for snippet in PROGRAMS} == PRINTED.keys()
    shown = re.sub(r"\s+", " ", (ROOT / "docs" / "testing.md").read_text())
    assert PRINTED["testing"][0] in shown
