"""The user's cache directory, for files that can be created again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return penstock's cache directory, which may not exist yet."""
    # The XDG base directory specification says to ignore a relative path.
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "penstock"
    return Path(environ.get("HOME") or Path.home(), ".cache", "penstock")
