"""MkDocs hook: an entry of the navigation that names a folder stands for all of its pages, in the order of names.

The page `index.md` comes first. A folder without pages is left out, with its heading. Pages that have no entry come
last, under a heading of their own, so that every page can be reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Replace folders by their pages, before MkDocs reads the navigation."""
    docs = Path(config["docs_dir"])
    nav = [entry for item in config["nav"] if (entry := _unfolded(item, docs))]
    left_over = sorted(set(_pages(docs, docs)) - set(_named(nav)))
    config["nav"] = [*nav, {"More": left_over}] if left_over else nav
    return config


def _unfolded(item: Any, docs: Path) -> Any:
    """An entry with pages in place of folders; None if nothing is left of it."""
    if isinstance(item, str):
        return item
    ((title, inside),) = item.items()
    if isinstance(inside, list):
        inside = [entry for one in inside if (entry := _unfolded(one, docs))]
    elif inside.endswith("/"):
        inside = _pages(docs, docs / inside)
    return {title: inside} if inside else None


def _pages(docs: Path, folder: Path) -> list[str]:
    pages = sorted(folder.rglob("*.md"), key=lambda page: (page.name != "index.md", page.as_posix()))
    return [page.relative_to(docs).as_posix() for page in pages]


def _named(entry: Any) -> Iterator[str]:
    """All pages of an entry."""
    if isinstance(entry, str):
        yield entry
    else:
        for inside in entry.values() if isinstance(entry, dict) else entry:
            yield from _named(inside)
