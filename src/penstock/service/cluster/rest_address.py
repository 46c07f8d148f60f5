"""Where the REST endpoint of a process is, and where its clients find its token."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec


class RestAddress(msgspec.Struct, frozen=True):
    """`url` without a slash at its end. `token_file` is readable by the user alone."""

    url: str
    token_file: str

    def token(self) -> str:
        """Raises OSError if the endpoint is gone."""
        return Path(self.token_file).read_text(encoding="ascii")


def write_token(directory: Path, port: int, token: str) -> Path:
    """Write the token of the endpoint at this port for clients of the same user. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{port}.token"
    # A process that was killed has left it. It may have been made with other rights, so it is not written again.
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path
