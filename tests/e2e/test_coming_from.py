"""The programs side by side give the same, each run as one runs it there."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.console_pages import SavedFile, steps_of

PAGES = sorted((Path(__file__).parents[2] / "docs" / "coming-from").glob("*.md"))
PENSTOCK = ("-m", "penstock.service.cli.main", "run", "-q")
COMMANDS = {
    "PyFlink": (*PENSTOCK, "--pyflink"),
    "penstock": PENSTOCK,
    "Structured Streaming": (),
    "Bytewax": ("-m", "bytewax.run"),
}
PRINTED = {
    ("pyflink", "PyFlink"): ["(home,1)", "(home,2)", "(shop,1)"],
    ("pyflink", "penstock"): ["('home', 1)", "('home', 2)", "('shop', 1)"],
}
PRINTED_ELSE = ["home 1", "home 2", "shop 1"]

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.usefixtures("lent_jvms")]


ELSEWHERE = "Structured Streaming"
"""It needs nothing of penstock, so what it prints changes with Spark's version alone."""


def programs() -> list[Any]:
    return [
        pytest.param(page.stem, step, marks=[pytest.mark.soak] if step.name == ELSEWHERE else [])
        for page in PAGES
        for step in steps_of(page)
        if isinstance(step, SavedFile)
    ]


@pytest.mark.parametrize(("page", "program"), programs(), ids=lambda value: getattr(value, "name", value))
def test_a_program_prints_what_the_page_says(page: str, program: SavedFile, tmp_path: Path) -> None:
    """A reader who compares would compare with a program that does something else."""
    if program.name == "Bytewax" and find_spec("bytewax") is None:
        pytest.skip("bytewax is not installed: it has no wheel for this Python")
    (tmp_path / "job.py").write_text(program.text, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, *COMMANDS[program.name], "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == PRINTED.get((page, program.name), PRINTED_ELSE)
