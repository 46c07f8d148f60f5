"""The files, pages and headings that the documentation names exist; a list that is complete stays so."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from penstock.engine.runtime.task.events import ControlEffect, ControlEvent

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATHS_BEGIN_AT = (ROOT / "src" / "penstock", ROOT)

PROGRAMS = {
    path.name
    for folder in ("src", "tests", "benchmarks", "examples", "manual")
    for path in (ROOT / folder).rglob("*.py")
}

PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.py)`")
FILE = re.compile(r"`([\w-]+\.py)`")
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)`")
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing_paths(text: str) -> list[str]:
    """Paths of Python files in backticks that are neither in the package nor in the repository."""
    return [path for path in PATH.findall(text) if not any((start / path).is_file() for start in PATHS_BEGIN_AT)]


def missing_files(text: str) -> list[str]:
    """Names of Python files in backticks that no file of the repository has."""
    return [name for name in FILE.findall(text) if name not in PROGRAMS]


@cache
def files_of_classes() -> dict[str, str]:
    """The text of the files that define a class, by the name of the class."""
    texts: dict[str, str] = {}
    for path in (ROOT / "src" / "penstock").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in CLASS.findall(text):
            texts[name] = texts.get(name, "") + text
    return texts


def missing_members(text: str) -> list[str]:
    """Members in backticks, `Class.member`, whose class's file does not mention them."""
    texts = files_of_classes()
    named = [(name, member) for name, member in MEMBER.findall(text) if name in texts]
    return [f"{name}.{member}" for name, member in named if not re.search(rf"\b{member}\b", texts[name])]


def broken_links(text: str, page: Path) -> list[str]:
    """Relative links, seen from a page, that lead to no file, no folder, or no heading of a page."""
    broken = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


def anchors_of(text: str) -> list[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_in_the_documentation_exist(page: Path) -> None:
    """A contributor would look for a file that was moved."""
    assert not missing_paths(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if "internals" in page.parts], ids=name_of)
def test_files_that_internal_pages_name_exist(page: Path) -> None:
    """A contributor would look for a file that was merged into another one."""
    assert not missing_files(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "internals").glob("*.md")), ids=name_of)
def test_members_that_internal_pages_name_exist(page: Path) -> None:
    """A contributor who follows a record would look for a method that was renamed."""
    assert not missing_members(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_in_the_documentation_lead_somewhere(page: Path) -> None:
    """A reader would follow a link to a page or a heading that is gone."""
    assert not broken_links(page.read_text(encoding="utf-8"), page)


USERS = [page for page in PAGES if "internals" not in page.parts and page.name not in {"CONTRIBUTING.md"}]
DOORS_TO_INTERNALS = {ROOT / "README.md": ["docs/internals/index.md"], ROOT / "docs/index.md": ["internals/index.md"]}


def internal_links(text: str) -> list[str]:
    return [link for link in LINK.findall(text) if "internals/" in link]


@pytest.mark.parametrize("page", USERS, ids=name_of)
def test_pages_for_users_lead_to_pages_for_users(page: Path) -> None:
    """A user would be sent to a page about the code, in place of the answer."""
    assert internal_links(page.read_text(encoding="utf-8")) == DOORS_TO_INTERNALS.get(page, [])


def test_what_is_missing_is_found() -> None:
    """The checks above would pass whatever the pages say."""
    text = (
        "`engine/runtime/task/task.py`, `tests/unit/test_tidy.py`, `task.py`, `runtime/gone.py`\n"
        "[a](docs/internals/testing.md) [b](docs/how-to/testing.md#test-your-functions) [c](https://spark.apache.org/x.md)\n"
        "[d](docs/gone.md) [e](docs/internals/testing.md#gone) [f](#gone)\n"
    )

    assert missing_paths(text) == ["runtime/gone.py"]
    assert missing_members("`Task.step`, `Task.gone`, `Elsewhere.gone`") == ["Task.gone"]
    assert missing_files("`task.py`, `gone.py`, `python gone.py`") == ["gone.py"]
    assert internal_links(text)[:1] == ["docs/internals/testing.md"]
    assert broken_links(text, ROOT / "README.md") == ["docs/gone.md", "docs/internals/testing.md#gone", "#gone"]


def test_all_messages_between_job_master_and_tasks_are_documented() -> None:
    """A contributor would read the page as the whole vocabulary, and miss what was added since."""
    page = (ROOT / "docs" / "internals" / "a-jobs-way.md").read_text(encoding="utf-8")
    names = [message.__name__ for message in [*get_args(ControlEvent), *get_args(ControlEffect)]]
    assert names and not [name for name in names if f"`{name}`" not in page]
