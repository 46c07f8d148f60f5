"""The project of docs/how-to/project.md: its files as the page shows them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from tests.snippets import ROOT

from penstock.service.cli.options import program_context
from penstock.service.cli.script import run_script

pytestmark = pytest.mark.spark
SHOWN = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def test_the_project_of_the_manual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A team would copy a layout whose tests fail or whose package its workers cannot import."""
    files = dict(SHOWN.findall((ROOT / "docs" / "how-to" / "project.md").read_text(encoding="utf-8")))
    for name, text in {**files, "delays/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    tests = [
        function
        for path in sorted(tmp_path.glob("tests/test_*.py"))
        for name, function in runpy.run_path(str(path)).items()
        if name.startswith("test_")
    ]
    for test in tests:
        test()
    with program_context({}):
        run_script(Path("job.py"), [])

    assert len(tests) == 2
    assert "{'airport': 'JFK', 'delay': 9}\n" in capsys.readouterr().out
