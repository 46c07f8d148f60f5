"""The address of a process's REST endpoint, and the file with the token for its clients."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec


class RestAddress(msgspec.Struct, frozen=True):
    """The address: `url` without a trailing slash; `token_file` is readable by the user alone."""

    url: str
    token_file: str

    def token(self) -> str:
        """Read the token. Raises OSError if the endpoint is gone."""
        return Path(self.token_file).read_text(encoding="ascii")


def write_token(directory: Path, port: int, token: str) -> Path:
    """Write the token of the endpoint at this port for clients of the same user. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{port}.token"
    # A killed process may have left the file, with other permissions: remove it instead of overwriting it.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path
