"""The pages that a reader follows at a terminal are read, typed and compared as meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.console_pages import SavedFile, Terminal, TypedCommand, as_shown, steps_of


def test_steps_of_a_page(tmp_path: Path) -> None:
    """Half of the commands would not be tried."""
    page = tmp_path / "page.md"
    page.write_text('text\n```python title="a.py"\nx = 1\n```\n\n```console\n$ python a.py\none\n…\n$ ls &\n```\n')

    assert list(steps_of(page)) == [
        SavedFile("a.py", "x = 1\n"),
        TypedCommand(7, "python a.py", ["one", "…"]),
        TypedCommand(10, "ls &", []),
    ]


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("a\nb\n", ["a", "b"], True),
        ("a\nb\n", ["a"], False),
        ("", [], True),
        ("a\n", [], False),
        ("took 5 ms\n", ["took … ms"], True),
        ("took 5 s\n", ["took … ms"], False),
        ("x\ny\nend\n", ["…", "end"], True),
        ("end\n", ["…", "end"], True),
        ("x.y\n", ["x?y"], False),
    ],
)
def test_what_is_printed_is_compared(printed: str, shown: list[str], same: bool) -> None:
    """Pages would show what is not printed any more."""
    assert as_shown(printed, shown) is same


def test_a_terminal_keeps_its_jobs_and_ends_them(tmp_path: Path) -> None:
    """The next chapter would not find what the last one has started; a failed test would leave it behind."""
    with Terminal(tmp_path, dict(os.environ)) as terminal:
        assert terminal.type("sleep 60 &") == ""
        process = int(terminal.type("echo $!"))
        assert terminal.type("printf 'no end of line'") == "no end of line"
        assert terminal.type("pwd") == f"{tmp_path}\n"

    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
