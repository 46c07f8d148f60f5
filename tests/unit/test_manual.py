"""The manual: what it generates from the code, and what it leaves out. `make docs` builds the whole."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mkdocs", reason="`make docs` needs it, and CI runs that")

from manual.generated import (
    SECTIONS,
    command_line,
    configuration,
    example,
    fields_of,
    operator_metrics,
    option_descriptions,
    public_names,
    written,
)
from manual.links import without_outer_links
from manual.navigation import on_config
from manual.self_contained import loaded_from_elsewhere
from tests.unit.test_public_names import doors

from penstock.common.configuration import options

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
MARKER = re.compile(r"^<!-- generated: (\S+)(?: (\S+))? -->$", re.MULTILINE)
SHOWN = [found for page in PAGES for found in MARKER.findall(page.read_text(encoding="utf-8"))]


def test_every_public_module_is_in_the_reference() -> None:
    """A class that users import could not be looked up."""
    assert Counter(argument for name, argument in SHOWN if name == "api") == Counter(doors().keys())


def test_every_public_name_has_one_place() -> None:
    """A class would be described nowhere, or twice."""
    names = Counter(name for door in doors() for name in public_names(door))
    exported = {name for module in doors().values() for name in module.__all__}

    assert names == Counter(exported)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if MARKER.search(page.read_text())], ids=lambda page: page.name
)
def test_generated_pages_are_up_to_date(page: Path) -> None:
    """A reader of the repository would look up what the code no longer has. `make reference` writes the pages."""
    text = page.read_text(encoding="utf-8")
    assert text == written(text, page.name), "run: make reference"


def test_every_page_is_in_the_navigation() -> None:
    """A page that is only linked is not found by a reader who looks through the list."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert not [entry for entry in on_config({"docs_dir": str(ROOT / "docs"), "nav": nav})["nav"] if "More" in entry]


def test_every_example_is_shown() -> None:
    """An example that no page leads to is found by nobody."""
    assert {argument for name, argument in SHOWN if name == "example"} == {p.stem for p in ROOT.glob("examples/*.py")}


def test_what_pages_ask_for_is_there() -> None:
    """The build would stop."""
    assert {name for name, _ in SHOWN} <= SECTIONS.keys()


def test_options_have_a_row_with_their_default() -> None:
    """A reader would set what is set already."""
    rows = "\n".join(configuration())

    assert all(f"| `{option.key}` |" in rows for option in options.ALL_OPTIONS)
    assert "| `execution.buffer-timeout.interval` | `5 ms` | Longest time until a buffer is sent. 0: " in rows
    assert "| `task.checkpoint.alignment.max-size` | `4 gb` |" in rows
    assert "| `execution.checkpointing.interval` | none |" in rows
    assert "Without effect: snapshots are not compressed." in rows


def test_each_option_says_what_it_does() -> None:
    """The reference would list a key, and leave its meaning to be guessed."""
    assert {option.key for option in options.ALL_OPTIONS} == option_descriptions().keys()


def test_metrics_say_what_they_count() -> None:
    """Whoever reads a figure would have to guess."""
    assert "| `numLateRecordsDropped` | Records that were dropped as late" in "\n".join(operator_metrics())
    for path in (
        "penstock.engine.jobmaster.metrics.VertexMetrics",
        "penstock.engine.checkpoint.report.CheckpointReport",
    ):
        rows = list(fields_of(path))
        assert len(rows) > 10 and not [row for row in rows if row.endswith("|  |")]


def test_commands_have_their_options() -> None:
    """The reference would lack a command."""
    text = "\n".join(command_line())

    assert "## penstock run\n" in text and "## penstock state show\n" in text
    assert re.search(r"^\| `-p, --parallelism .*` \| Subtasks of each operator", text, re.MULTILINE)
    assert "\npenstock run -s latest -p 8 job.py\n" in text


def test_an_example_is_shown_as_it_is() -> None:
    """A reader would copy another program than the one that is tested."""
    text = "\n".join(example("word_count"))

    assert '```python title="examples/word_count.py"\nfrom penstock.datastream' in text
    assert text.endswith('env.execute("word count")\n```')


def test_folders_stand_for_their_pages(tmp_path: Path) -> None:
    """A new page would have no place in the navigation."""
    (tmp_path / "deploy").mkdir()
    for name in ("index", "a", "forgotten", "deploy/yarn", "deploy/index", "deploy/local"):
        (tmp_path / f"{name}.md").touch()
    nav = ["index.md", {"Deployment": "deploy/"}, {"Inside": ["a.md", {"Decisions": "gone/"}]}, {"Gone": "gone/"}]

    assert on_config({"docs_dir": str(tmp_path), "nav": nav})["nav"] == [
        "index.md",
        {"Deployment": ["deploy/index.md", "deploy/local.md", "deploy/yarn.md"]},
        {"Inside": ["a.md"]},
        {"More": ["forgotten.md"]},
    ]


def test_links_out_of_the_manual_are_text(tmp_path: Path) -> None:
    """A page could name no file of the checkout, or a reader of the site would follow a link to nothing."""
    (tmp_path / "decisions").mkdir()
    text = "[a](b.md#c) [d](../examples/d.py) [e](decisions) ![f](images/f.svg) [g](https://spark.apache.org)"

    assert without_outer_links(text, tmp_path, tmp_path) == (
        "[a](b.md#c) d e ![f](images/f.svg) [g](https://spark.apache.org)"
    )


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<link href="https://fonts.example" rel="preconnect">',
        '<img alt="a" src="http://pictures.example/a.png">',
        "@import url(https://fonts.example/css)",
        "@font-face { src: url(https://fonts.example/a.woff2) }",
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(text: str) -> None:
    """The manual would need a network, and tell another host who reads it."""
    assert loaded_from_elsewhere(text)


def test_links_may_lead_elsewhere() -> None:
    """No page could name the project that it speaks of."""
    assert not loaded_from_elsewhere('<a href="https://spark.apache.org">Spark</a> <img src="images/top.svg">')


def test_what_a_class_has_from_bases_without_an_entry_is_shown_with_it() -> None:
    """`uid` and `set_parallelism` of streams, `trigger` and `reduce` of windows were nowhere."""
    entries = "\n".join(SECTIONS["api"]("penstock.datastream")).split("::: ")
    of_class = {entry.partition("\n")[0].rpartition(".")[2]: entry for entry in entries}
    assert "'set_parallelism'" in of_class["DataStream"] and "'uid'" in of_class["DataStreamSink"]
    assert "'trigger'" in of_class["WindowedStream"] and "'reduce'" in of_class["WindowedStream"]
    # Its base has an entry.
    assert "'map'" not in of_class["CachedDataStream"]
