"""MkDocs hook: what the reference says about the code is read from the code, at each build.

A comment `<!-- generated: NAME -->` on a page is replaced by what the function of that name in `SECTIONS` returns.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import griffe
import typer
from mkdocs.exceptions import PluginError

from penstock.common.config_options import ConfigOption
from penstock.common.config_values import DurationType, MemorySizeType
from penstock.common.configuration.options import ALL_OPTIONS
from penstock.common.operator_metrics import OPERATOR_METRICS
from penstock.service.cli.main import app
from penstock.service.client.settings_check import WITHOUT_EFFECT

ROOT = Path(__file__).parents[1]
_MARKER = re.compile(r"^<!-- generated: ([\w/.-]+)(?: ([\w/.-]+))? -->$", re.MULTILINE)
_UNITS = {
    DurationType: ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")),
    MemorySizeType: ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b")),
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the comments of a page. Raises PluginError for one that names nothing."""

    def section(match: re.Match[str]) -> str:
        name, argument = match.groups()
        if name not in SECTIONS:
            raise PluginError(f"{page.file.src_uri}: there is nothing generated called {name!r}")
        return "\n".join(SECTIONS[name](*([argument] if argument else [])))

    return _MARKER.sub(section, markdown)


# Configuration


def configuration() -> Iterator[str]:
    """All options, a table for each group of keys."""
    descriptions = option_descriptions()
    groups: dict[str, list[ConfigOption[Any]]] = {}
    for option in sorted(ALL_OPTIONS, key=lambda option: option.key):
        groups.setdefault(_group(option.key), []).append(option)
    for name, options in groups.items():
        yield from ("", f"## {name}", "", "| key | default | |", "| --- | --- | --- |")
        for option in options:
            described = [descriptions[option.key], f"Value: {option.value_type.name}."]
            described += [f"Also: `{key}`." for key in option.fallback_keys]
            described += [f"Without effect: {why}." for other, why in WITHOUT_EFFECT.items() if other.key == option.key]
            yield f"| `{option.key}` | {_default(option)} | {' '.join(described)} |"


def option_descriptions() -> dict[str, str]:
    """Return the docstring of each option's constant by the option's key; an option without one is left out."""
    folder = griffe.load("penstock.common.configuration", search_paths=[str(ROOT / "src")])
    found = {}
    for module in folder.modules.values():
        constants = vars(importlib.import_module(module.path))
        for name, constant in module.attributes.items():
            if isinstance(option := constants.get(name), ConfigOption) and constant.docstring:
                found[option.key] = " ".join(constant.docstring.value.split())
    return found


def _group(key: str) -> str:
    """The heading of a key: its first part, and the second of those that begin with `execution` and are longer."""
    parts = key.split(".")
    return ".".join(parts[: 2 if parts[0] == "execution" and len(parts) > 2 else 1])


def _default(option: ConfigOption[Any]) -> str:
    if option.default in (None, {}, []):
        return "none"
    units = _UNITS.get(type(option.value_type), ())
    for size, unit in units:
        if option.default % size == 0:
            return f"`{option.default // size} {unit}`" if option.default else "`0`"
    return f"`{option.value_type.format(option.default)}`"


# Metrics


def operator_metrics() -> Iterator[str]:
    """What `JobClient.get_metrics()` has of each operator."""
    yield from ("| metric | |", "| --- | --- |")
    yield from (f"| `{name}` | {text} |" for name, (_, text) in OPERATOR_METRICS.items())


def fields_of(path: str) -> Iterator[str]:
    """The attributes of a class, with their docstrings: `penstock.engine.jobmaster.metrics.VertexMetrics`."""
    module, _, name = path.rpartition(".")
    described = griffe.load(module, search_paths=[str(ROOT / "src")])[name]
    yield from ("| field | type | |", "| --- | --- | --- |")
    for field in described.attributes.values():
        text = field.docstring.value if field.docstring else ""
        yield f"| `{field.name}` | `{field.annotation}` | {' '.join(text.split())} |"


# API


def public_names(door: str) -> list[str]:
    """The names that belong on the page of a door: those whose home it is, or that have none and are its package's."""
    module = importlib.import_module(door)
    return [
        name for name in module.__all__ if _is_at_home(name, getattr(getattr(module, name), "__module__", door), door)
    ]


def _is_at_home(name: str, home: str, door: str) -> bool:
    if home == door:
        return True
    if hasattr(importlib.import_module(home), "__all__"):
        return False
    package = home.rpartition(".")[0]
    return package == door or name not in getattr(importlib.import_module(package), "__all__", ())


def api(door: str) -> Iterator[str]:
    """The classes and functions of a public module, by its public path."""
    module = importlib.import_module(door)
    yield from ("", f"## {door}", "", (module.__doc__ or "").strip(), "")
    for name in public_names(door):
        yield f"::: {door}.{name}"
        if inherited := _inherited_unseen(getattr(module, name)):
            yield from ("    options:", f"      inherited_members: {inherited}")
        yield ""


def _inherited_unseen(shown: Any) -> list[str]:
    """What a class has from bases that have no entry of their own: it would be nowhere."""
    bases = shown.__mro__[1:] if isinstance(shown, type) else ()
    own = [base for base in bases if base.__module__.startswith("penstock.") and base not in _all_shown()]
    return sorted({name for base in own for name in vars(base) if not name.startswith("_")} - vars(shown).keys())


@functools.cache
def _all_shown() -> frozenset[Any]:
    pages = (page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference" / "api").glob("*.md"))
    doors = [argument for page in pages for name, argument in _MARKER.findall(page) if name == "api"]
    shown = (getattr(importlib.import_module(door), name) for door in doors for name in public_names(door))
    return frozenset(one for one in shown if isinstance(one, type))


# Command line


def command_line() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield from _commands(typer.main.get_command(app), "penstock")


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        else:
            yield from _command(command, f"{path} {name}")


def _command(command: Any, path: str) -> Iterator[str]:
    context = command.context_class(command, info_name=path)
    usage = command.get_usage(context).removeprefix("Usage: ").splitlines()
    yield from ("", f"## {path}", "", "```text", *usage, "```")
    yield from ("", *_help(command.help or ""), "")
    rows = [parameter.get_help_record(context) for parameter in command.params]
    if any(rows):
        yield from ("| | |", "| --- | --- |")
    for row in rows:
        if row is not None:
            name, text = (" ".join(part.split()) for part in row)
            yield f"| `{name}` | {text} |"


def _help(text: str) -> Iterator[str]:
    """The help of a command; paragraphs that the terminal shows line by line are code."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            yield from ("", "```text", *(line.removeprefix("  ") for line in lines[1:]), "```", "")
        else:
            yield from (*lines, "")


# Examples


def example(name: str) -> Iterator[str]:
    """The text of a program in examples/, below what it says about itself."""
    program = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    _, about, code = program.split('"""', 2)
    paragraphs = about.strip().split("\n\n")
    for paragraph in paragraphs:
        shown = paragraph.splitlines()
        if paragraph.lstrip().startswith("penstock"):
            yield from ("", "```text", *(line.strip() for line in shown), "```")
        else:
            yield from ("", *shown)
    yield from ("", f'```python title="examples/{name}.py"', code.strip(), "```")


SECTIONS: dict[str, Callable[..., Iterator[str]]] = {
    "api": api,
    "command-line": command_line,
    "configuration": configuration,
    "example": example,
    "fields": fields_of,
    "operator-metrics": operator_metrics,
}
