"""MkDocs hook: a link to a file of the checkout that is no page, or to a folder, is plain text on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s#:]+)(?:#[^()\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Leave the text of such links."""
    return without_outer_links(markdown, Path(page.file.abs_src_path).parent, Path(config["docs_dir"]))


def without_outer_links(markdown: str, folder: Path, docs: Path) -> str:
    """The text of a page in `folder`, whose links stay in `docs`."""

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        return link[0] if target.is_relative_to(docs.resolve()) and not target.is_dir() else link[1]

    return _LINK.sub(shown, markdown)
