"""Commands on the pages of the documentation: what they ask of penstock is there, by its command and by each option.

Programs on the pages are run. Many commands can't be, as they name machines and jobs that a reader has.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.snippets import PAGES

from penstock.common.configuration import Configuration
from penstock.common.configuration.option_checks import check_keys
from penstock.common.errors import ConfigurationError
from penstock.service.cli.main import app

PROGRAM_AT = {"run": 0, "explain": 0, "update": 1}
"""Which argument is a program: what comes after it is the program's own."""
A_JOBS_NAME = "penstock job"
_IN_TEXT = re.compile(r"`(penstock(?: [^`]*)?)`")
_IN_BLOCK = re.compile(r"^(?: {4}| *)(?:\$ )?(?:\w+=\S+ )*(?:\S*bin/)?(penstock(?: .*)?)$")


def commands_of(text: str) -> list[str]:
    """What a page says after `penstock`, in blocks and in text, a comment at its end left out."""
    found, fenced = [], False
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and (match := _IN_BLOCK.match(line)):
            found.append(match[1])
        elif not fenced:
            found += _IN_TEXT.findall(line)
    return found


def parts_of(command: str) -> Iterator[str]:
    """Commands of penstock in one line of a shell."""
    for part in re.split(r"\s+(?:\||&&|;|>|2>)\s*|;\s|\s#|\s&$|\s{2,}", command):
        if part.split(" ")[0] == "penstock" and part != A_JOBS_NAME:
            yield part


def faults_of(command: str) -> list[str]:
    """What a command asks for that is not there."""
    found: Any = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while hasattr(found, "commands") and words and not words[0].startswith("-"):
        if words[0] not in found.commands:
            return [f"no command {words[0]}"] if re.fullmatch(r"[a-z-]+", words[0]) else []
        found = found.commands[words.pop(0)]
    # By option: whether it takes no value.
    options = {
        name: one.is_flag
        for one in found.params
        for name in one.opts + one.secondary_opts
        if one.param_type_name == "option"
    }
    options.update({"--help": True, "-h": True})
    faults: list[str] = []
    arguments = 0
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            arguments += 1
            if arguments > PROGRAM_AT.get(found.name, len(words) + arguments):
                break
            continue
        name, _, value = word.partition("=")
        if name not in options:
            faults.append(f"no option {name}")
        elif not options[name]:
            value = value or (words.pop(0) if words else "")
            if name == "-D":
                faults += faults_of_setting(value)
    return faults


def faults_of_setting(setting: str) -> list[str]:
    """Of `KEY=VALUE`: `...` and names in capitals stand for what the reader has."""
    key, _, value = setting.partition("=")
    if not value or key.isupper() or "." in (key[-1:], value[:1]):
        return []
    try:
        return [f"no setting {unknown}" for unknown in check_keys(Configuration.from_dict({key: value}))]
    except ConfigurationError as error:
        return [str(error)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_there(page: Path) -> None:
    """A reader types what the page says, and is told that there is no such option."""
    commands = [part for line in commands_of(page.read_text(encoding="utf-8")) for part in parts_of(line)]
    faults = {command: found for command in commands if (found := faults_of(command))}

    assert not faults


def test_what_is_not_there_is_found() -> None:
    """The test above would pass whatever pages say."""
    text = (
        "a `penstock stopp JOB`\n\n    $ X=1 penstock run -z job.py -z | penstock list --what  # no\n```\npenstock\n```"
    )
    parts = [part for line in commands_of(text) for part in parts_of(line)]
    assert parts == ["penstock stopp JOB", "penstock run -z job.py -z", "penstock list --what", "penstock"]
    assert [faults_of(part) for part in parts] == [["no command stopp"], ["no option -z"], ["no option --what"], []]
    assert faults_of("penstock run -D execution.checkpointing.intervall=1s job.py")
    assert not faults_of("penstock run -D execution.checkpointing.interval=1s -D spark.executor.cores=4 job.py -x")
    assert sum(len(commands_of(page.read_text(encoding="utf-8"))) for page in PAGES) > 100
