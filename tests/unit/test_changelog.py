"""The changelog: fragments by kind, and the versions that were released."""

from __future__ import annotations

from pathlib import Path

from manual.changelog import CHANGELOG, FRAGMENTS, KINDS, next_version, with_next_version


def test_fragments_are_gathered_by_kind(tmp_path: Path) -> None:
    """A reader would miss what may break a program among what is new, or follow a link to nothing."""
    (tmp_path / "7.fix.md").write_text("A bug is fixed.\n")
    (tmp_path / "41-words.change.md").write_text("A name changes: [page](../docs/a.md).\n")
    (tmp_path / "42-more.fix.md").write_text("Another one.\n")

    text = next_version(tmp_path)

    assert text.index("### Changed") < text.index("### Fixed")
    assert text.index("Another one.") < text.index("A bug is fixed.")
    assert "[page](docs/a.md)" in text


def test_released_versions_stay() -> None:
    """The first release would be lost with the fragments of the second."""
    before = with_next_version("", "## Unreleased\n\nOld.\n<!-- end of the next version -->\n") + "\n## 0.1\n\nOld.\n"

    after = with_next_version(before, "## Unreleased\n\nNew.\n<!-- end of the next version -->\n")

    assert after.count("## Unreleased") == 1
    assert after.endswith("\n## 0.1\n\nOld.\n")


def test_every_fragment_has_a_kind() -> None:
    """A change would be in no changelog."""
    names = [path.name for path in FRAGMENTS.glob("*.md") if path.name != "README.md"]

    assert not [
        name for name in names if name.split(".")[1] not in KINDS or not name.split("-")[0].split(".")[0].isdigit()
    ]
    assert CHANGELOG.read_text(encoding="utf-8").startswith("# Changelog\n")
