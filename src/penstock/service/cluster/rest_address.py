"""The address of a process's REST endpoint, and the file with the token for its clients."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from penstock.service.cluster.rest_tokens import login_path, read_only_token


class RestAddress(msgspec.Struct, frozen=True):
    """The address: `url` without a trailing slash; `token_file` is readable by the user alone."""

    url: str
    token_file: str

    def token(self) -> str:
        """Read the token. Raises OSError if the endpoint is gone."""
        return Path(self.token_file).read_text(encoding="ascii")

    def login_url(self) -> str:
        """Return an address that logs a browser in, once, within ten minutes. Raises OSError as `token` does."""
        return f"{self.url}{login_path(self.token())}"


def write_token(directory: Path, port: int, token: str) -> Path:
    """Write the token of the endpoint at this port, and the one that only reads, for clients of the same user.

    Return the path of the first; `read_only_file` names the other. Raises OSError.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{port}.token"
    _write(read_only_file(path), read_only_token(token))
    _write(path, token)
    return path


def read_only_file(token_file: Path) -> Path:
    """Return the file next to `token_file` with the token that only reads, for a scraper of metrics for example."""
    return token_file.with_suffix(".read-only-token")


def _write(path: Path, token: str) -> None:
    # A killed process may have left the file, with other permissions: remove it instead of overwriting it.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)


def shown_address(rest: RestAddress, stream: TextIO | None = None) -> str:
    """Return how to open this address: on a terminal a link that logs in once, else the url and the token's file.

    The link is not written where a log may keep it.
    """
    if (stream or sys.stderr).isatty():
        return f"{rest.login_url()} (once, within ten minutes; afterwards {rest.url})"
    file = Path(rest.token_file)
    shown = f"~/{file.relative_to(Path.home())}" if file.is_relative_to(Path.home()) else file
    return f"{rest.url}, token in {shown}"
