"""Where files are kept that can be made again: of this user, on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The directory for files that penstock can create again. Not created here."""
    # The XDG base directory specification says that a relative path is to be ignored.
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "penstock"
    return Path(environ.get("HOME") or Path.home(), ".cache", "penstock")
