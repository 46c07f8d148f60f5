"""What the reference says about the code is read from the code.

A block of a page, from `<!-- generated: NAME -->` to `<!-- end of generated -->`, contains what the function of that
name in `WRITTEN` returns. `make reference` writes it, so that the pages can be read in the repository; a test
compares it with the code. As a hook of MkDocs, this module fills the block by `SECTIONS` at each build: mkdocstrings
shows the API.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import griffe
import typer
from benchmarks.nexmark_sql import QUERIES, VIEWS, events_table
from mkdocs.exceptions import PluginError

from manual.api_text import described, paragraphs
from penstock.common.config_options import ConfigOption
from penstock.common.config_values import DurationType, MemorySizeType
from penstock.common.configuration.options import ALL_OPTIONS
from penstock.common.operator_metrics import OPERATOR_METRICS
from penstock.service.cli.main import app
from penstock.service.client.settings_check import WITHOUT_EFFECT
from penstock.table.connectors.listed_options import connector_options, format_options
from penstock.table.functions.calls import families
from penstock.table.functions.registry import Function

ROOT = Path(__file__).parents[1]
END = "<!-- end of generated -->"
_MARKER = re.compile(r"^<!-- generated: ([\w/.-]+)(?: ([\w/.=-]+))? -->$", re.MULTILINE)
_BLOCK = re.compile(rf"{_MARKER.pattern}(?:\n(?:(?!<!-- generated: ).*\n)*?{END}$)?", re.MULTILINE)
_UNITS = {
    DurationType: ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")),
    MemorySizeType: ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"), (1, "b")),
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the blocks of a page. Raises PluginError for one that names nothing."""
    return _filled(markdown, page.file.src_uri, SECTIONS)


def written(markdown: str, name: str) -> str:
    """Return the page with blocks as the repository has them."""

    def block(text: str, marker: str) -> str:
        return f"{marker}\n\n{text.strip()}\n\n{END}"

    return _filled(markdown, name, WRITTEN, block)


def _filled(
    markdown: str,
    name_of_page: str,
    sections: Mapping[str, Callable[..., Iterator[str]]],
    block: Callable[[str, str], str] = lambda text, _: text,
) -> str:
    def section(match: re.Match[str]) -> str:
        name, argument = match.groups()
        if name not in sections:
            raise PluginError(f"{name_of_page}: there is nothing generated called {name!r}")
        return block("\n".join(sections[name](*([argument] if argument else []))), match[0].partition("\n")[0])

    return _BLOCK.sub(section, markdown)


@functools.cache
def _source() -> griffe.Object | griffe.Alias:
    """The package, read without being imported. Griffe reads all of it, whichever module is named: seconds."""
    return griffe.load("penstock", search_paths=[str(ROOT / "src")])


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
    folder = _source()["common.configuration"]
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


def table_options() -> Iterator[str]:
    """The options of connectors and formats of SQL, a table for each."""
    for name, options in connector_options().items():
        yield from ("", f"## Options of {name}", "")
        if not options:
            yield "There are no options."
            continue
        yield from ("| option | default | value |", "| --- | --- | --- |")
        yield from (_table_option(one, "") for one in sorted(options, key=lambda one: one.key))
    for name, options in format_options().items():
        yield from ("", f"## Options of the format {name}", "", "| option | default | value |", "| --- | --- | --- |")
        yield from (_table_option(one, f"{name}.") for one in sorted(options, key=lambda one: one.key))


def _table_option(option: ConfigOption[Any], prefix: str) -> str:
    # An empty text, and one that is a bar of the table.
    default = "none" if option.default == "" else _default(option)
    return f"| `{prefix}{option.key}` | {default} | {option.value_type.name} |"


_OF_PLANS = frozenset(
    {
        *("PLUS", "MINUS", "TIMES", "DIVIDE", "/INT", "EQUALS", "NOT_EQUALS", "LESS_THAN", "LESS_THAN_OR_EQUAL"),
        *("GREATER_THAN", "GREATER_THAN_OR_EQUAL", "REINTERPRET", "PROCTIME_MATERIALIZE", "TEMPORAL_OVERLAPS"),
        *("TRANSLATE3", "HASH_CODE", "ITEM", "DOT"),
    }
)
"""Names that plans and the Table API give functions, and SQL does not."""


def sql_functions() -> Iterator[str]:
    """The functions of SQL, a table for each family, with what they accept."""
    for family, functions in families().items():
        about, _, _ = (family.__doc__ or "").partition("\n")
        shown = [one for name, one in functions.items() if name not in _OF_PLANS]
        if not shown:
            continue
        title = family.__name__.rpartition(".")[2].replace("_", " ").capitalize().replace("Json", "JSON")
        yield from ("", f"## {title}", "", *paragraphs(about), "| function | accepts |", "| --- | --- |")
        yield from (f"| `{_in_table(one.name)}` | {_accepted(one)} |" for one in shown)


def _accepted(function: Function) -> str:
    accepted = [f"`{_in_table(one)}`" if one else "nothing" for one in function.signatures]
    return ", or ".join(accepted)


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def nexmark_queries() -> Iterator[str]:
    """Nexmark's table, views and queries."""
    statements = (events_table({"connector": "nexmark", "events.num": "1000000"}), *VIEWS)
    yield from ("```sql", *(f"{one};" for one in statements), "```")
    for name, query in QUERIES.items():
        yield from ("", f"### {name}", "", "```sql", query.sql, "```")


# Metrics


def operator_metrics() -> Iterator[str]:
    """What `JobClient.get_metrics()` has of each operator."""
    yield from ("| metric | |", "| --- | --- |")
    yield from (f"| `{name}` | {text} |" for name, (_, text) in OPERATOR_METRICS.items())


def fields_of(path: str) -> Iterator[str]:
    """The attributes of a class, with their docstrings: `penstock.engine.jobmaster.metrics.VertexMetrics`."""
    module, _, name = path.rpartition(".")
    described = _source()[module.removeprefix("penstock.")][name]
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


def api_as_text(door: str) -> Iterator[str]:
    """The same, as text for readers of the repository."""
    module = importlib.import_module(door)
    yield from ("", f"## {door}", "", *paragraphs((module.__doc__ or "").strip()))
    for name in public_names(door):
        shown = getattr(module, name)
        yield from described(name, shown, _inherited_unseen(shown))


def entry(argument: str) -> Iterator[str]:
    """One class or function that is not a door's own: its path, and `=` and the heading if that is not its name."""
    path, _, heading = argument.partition("=")
    yield from (f"::: {path}", "    options:", f"      inherited_members: {isinstance(_at(path), type)}")
    if heading:
        yield f"      heading: {heading}"


def entry_as_text(argument: str) -> Iterator[str]:
    """The same, as text for readers of the repository."""
    path, _, heading = argument.partition("=")
    shown = _at(path)
    bases = shown.__mro__[1:] if isinstance(shown, type) else ()
    names = {name for base in bases if base.__module__.startswith("penstock.") for name in vars(base)}
    inherited = sorted(name for name in names - vars(shown).keys() if not name.startswith("_"))
    yield from described(heading or shown.__name__, shown, inherited)


def _at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


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
            yield from paragraphs("\n".join(line.strip() for line in lines))


# Examples


def example(name: str) -> Iterator[str]:
    """The text of a program in examples/, below what it says about itself."""
    program = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    _, about, code = program.split('"""', 2)
    for paragraph in about.strip().split("\n\n"):
        if paragraph.startswith("    penstock"):
            yield from ("", "```text", *(line.strip() for line in paragraph.splitlines()), "```")
        else:
            yield from ("", *paragraphs(paragraph))
    yield from ("", f'```python title="examples/{name}.py"', code.strip(), "```")


SECTIONS: dict[str, Callable[..., Iterator[str]]] = {
    "api": api,
    "command-line": command_line,
    "configuration": configuration,
    "entry": entry,
    "example": example,
    "fields": fields_of,
    "nexmark-queries": nexmark_queries,
    "operator-metrics": operator_metrics,
    "sql-functions": sql_functions,
    "table-options": table_options,
}
"""By the name in a comment."""
WRITTEN = SECTIONS | {"api": api_as_text, "entry": entry_as_text}


def main() -> None:
    """Write the generated blocks of all pages."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if _MARKER.search(text):
            page.write_text(written(text, page.name), encoding="utf-8")


if __name__ == "__main__":
    main()
