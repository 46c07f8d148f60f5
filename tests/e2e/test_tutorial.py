"""A reader who follows the tutorial, command by command, in one terminal, sees what its pages show."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from tests.console_pages import SavedFile, Terminal, as_shown, steps_of
from tests.snippets import snippets_of

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "docs" / "tutorial").glob("[1-9]-*.md"))

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]


def variables(tmp_path: Path) -> dict[str, str]:
    """Those of a reader who has activated the environment, and has no other job in the registry."""
    (tmp_path / "bin").mkdir()
    for name, program in (("python", sys.executable), ("penstock", f"{sys.executable} -m penstock.service.cli.main")):
        command = tmp_path / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        command.chmod(0o755)
    # Options of the one who tests would change what pytest prints.
    ours = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return {**ours, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "COLUMNS": "120"}


def test_the_tutorial(tmp_path: Path) -> None:
    """The first hour of a newcomer would end at a command that does something else."""
    work = tmp_path / "tutorial"
    work.mkdir()
    assert len(CHAPTERS) == 9
    with Terminal(work, variables(tmp_path)) as terminal:
        for page in CHAPTERS:
            for step in steps_of(page):
                if isinstance(step, SavedFile):
                    (work / step.name).write_text(step.text, encoding="utf-8")
                    continue
                printed = terminal.type(step.command)
                shown = "\n".join(step.prints)
                assert as_shown(printed, step.prints), (
                    f"{page.name}:{step.line}: $ {step.command}\nprints:\n{printed}\nthe page shows:\n{shown}"
                )


def test_the_readme(tmp_path: Path) -> None:
    """What the first page tells everybody to type would fail, or print something else than the page shows."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    commands = re.findall(r"^    (penstock .*?)(?: {2,}.*)?$", text, re.MULTILINE)
    # Clusters are in tests/e2e/test_standalone_cluster.py and test_cluster.py.
    run, top, dashboard, parallel, explain, listed, cluster = [name for name in commands if "spark://" not in name]
    (tmp_path / "clicks.py").write_text(snippets_of(readme)[0].program, encoding="utf-8")
    with Terminal(tmp_path, variables(tmp_path)) as terminal:
        printed = {command: terminal.type(f"{command}; echo status $?") for command in (run, parallel, explain)}
        # These are about running jobs, of which there may be any or none.
        about_jobs = (top, dashboard, listed, cluster)
        printed |= {command: terminal.type(f"{command} --help; echo status $?") for command in about_jobs}

    assert not {command: text for command, text in printed.items() if not text.endswith("status 0\n")}
    shown = text.split("```text\n")[1].split("```")[0].splitlines()
    lines_of = {user: [line for line in shown if line.startswith(user)] for user in ("ann", "bob")}
    found = {user: [line for line in printed[run].splitlines() if line.startswith(user)] for user in lines_of}
    assert found == lines_of
    assert re.search(rf"^[1-4]> {re.escape(shown[-1])}$", printed[parallel], re.MULTILINE), printed[parallel]
    assert "3 levels, 3 slots" in printed[explain]
