"""Writes CHANGELOG.md: the fragments of changelog.d, by kind, under the heading of the next version. `make changelog`.

Versions that were released keep their text: what stands below the end of the first section is left as it is.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FRAGMENTS = ROOT / "changelog.d"
CHANGELOG = ROOT / "CHANGELOG.md"
KINDS = {
    "removal": "Removed",
    "change": "Changed",
    "feature": "New",
    "speed": "Faster",
    "fix": "Fixed",
    "doc": "Documentation",
}
"""The heading of each kind of fragment, in the order of the page: what may break a program comes first."""
INTRODUCTION = """# Changelog

What users notice, by version. [Versions and upgrades](docs/versions.md) says what a new version may
change.

"""
END = "<!-- end of the next version -->\n"
_LINK_FROM_FRAGMENT = re.compile(r"\]\(\.\./")


def fragments_of(kind: str, folder: Path = FRAGMENTS) -> list[str]:
    """Return the texts of a kind, the newest issue first. Links lead from the root of the repository."""
    paths = sorted(
        folder.glob(f"*.{kind}.md"), key=lambda path: (-int(path.name.split(".")[0].split("-")[0]), path.name)
    )
    return [_LINK_FROM_FRAGMENT.sub("](", path.read_text(encoding="utf-8")).strip() for path in paths]


def next_version(folder: Path = FRAGMENTS) -> str:
    """Return the section of the version that is not released yet."""
    parts = ["## Unreleased\n"]
    for kind, heading in KINDS.items():
        if texts := fragments_of(kind, folder):
            parts += [f"### {heading}\n", *(f"{text}\n" for text in texts)]
    return "\n".join(parts) + "\n" + END


def with_next_version(page: str, section: str) -> str:
    """Return the page with this section in place of the one above `END`."""
    _, _, released = page.partition(END)
    return INTRODUCTION + section + released


def main() -> None:
    """Write the page."""
    page = CHANGELOG.read_text(encoding="utf-8") if CHANGELOG.exists() else ""
    CHANGELOG.write_text(with_next_version(page, next_version()), encoding="utf-8")


if __name__ == "__main__":
    main()
