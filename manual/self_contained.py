"""MkDocs hook: the finished site loads nothing from elsewhere: no script, style, font or picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|image)\b[^>]*?\b(?:src|href|xlink:href)=["'](?:https?:)?//[^"']*"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|pre|icon|manifest))[^>]*?href=["']?(?:https?:)?//[^"'> ]*"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//[^"')]*|url\(["']?(?:https?:)?//[^"')]*"""
)


def loaded_from_elsewhere(text: str) -> list[str]:
    """What a page, style or drawing would load from another host."""
    return _LOADED.findall(text)


def on_post_build(config: Any) -> None:
    """Raise PluginError, which ends the build, if a file of the site loads something from elsewhere."""
    site = Path(config["site_dir"])
    for path in sorted(path for kind in ("html", "css", "svg") for path in site.rglob(f"*.{kind}")):
        found = loaded_from_elsewhere(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)} loads from elsewhere: {found[0]}")
