"""Pages that a reader follows at a terminal: files to save, commands to type, and what they print.

A block of Python with a title is a file. A block `console` has commands, lines that begin with `$ `, each with what it
prints below it; `…` stands for anything within a line, and alone on a line for any lines.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_BLOCK = re.compile(r'^```(?:python title="([^"]+)"|(console))\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_ANYTHING = "…"


@dataclass(frozen=True)
class SavedFile:
    """A file that the page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class TypedCommand:
    """A command, and the lines that it is to print."""

    line: int
    command: str
    prints: list[str]


def steps_of(page: Path) -> Iterator[SavedFile | TypedCommand]:
    """What a reader of the page does, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        name, _, block = match.groups()
        if name:
            yield SavedFile(name, block)
        else:
            yield from _commands(block, text[: match.start()].count("\n") + 2)


def _commands(block: str, first_line: int) -> Iterator[TypedCommand]:
    command: TypedCommand | None = None
    for number, line in enumerate(block.splitlines()):
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = TypedCommand(first_line + number, line.removeprefix("$ "), [])
        else:
            assert command is not None, f"line {first_line + number} is printed by no command"
            command.prints.append(line)
    if command is not None:
        yield command


def as_shown(printed: str, shown: list[str]) -> bool:
    """Whether a text is what a page shows."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == _ANYTHING else re.escape(line).replace(re.escape(_ANYTHING), ".*") + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, printed) is not None


class Terminal:
    """A shell that stays, in a folder: background jobs and variables last from command to command.

    `variables`: its environment. Whatever still runs at the end is ended.
    """

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write("kill $(jobs -p) 2> /dev/null; wait\nexit\n")
        self._shell.stdin.close()
        self._shell.wait()

    def type(self, command: str) -> str:
        """Type a command, wait until it has ended, and return what was printed meanwhile."""
        self._count += 1
        end = f"--- end of command {self._count} ---"
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho '{end}'\n")
        self._shell.stdin.flush()
        printed = []
        for line in self._shell.stdout:
            if line.rstrip("\n").endswith(end):
                printed.append(line.rstrip("\n").removesuffix(end))
                return "".join(printed)
            printed.append(line)
        raise AssertionError(f"the shell has ended with {command!r}: {''.join(printed)}")
