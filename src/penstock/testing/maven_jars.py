"""Jars of servers for tests, which `mvn` fetches once from Maven's repository into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.files.new_directory import new_directory

_FETCH_SECONDS = 240
"""Without a network, Maven would retry for minutes."""


def maven_jars(server: str, name: str, pom: str, checksums: Mapping[str, str] | None = None) -> Path:
    """Return the directory `name` in the user's cache with the jars of a Maven project, fetching them the first time.

    `server`: the name in errors. `checksums`: SHA-256 of each allowed jar by its name; None: compare Maven's own.
    Raises ConfigurationError if they are unavailable, for example without Maven.
    """
    jars = cache_directory(os.environ) / name
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(f"{server} needs jars from Maven's repository: install Maven (the command mvn)")
    with new_directory(jars) as new:
        file = new.parent / "pom.xml"
        file.write_text(pom)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={new}"]
        command = [maven, "-q", "-B", "-C", "-f", str(file), *goal]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            raise ConfigurationError(
                f"Maven did not fetch {server} within {_FETCH_SECONDS} s. Retry: it resumes where it was"
            ) from None
        if done.returncode != 0:
            raise ConfigurationError(f"Maven did not fetch {server}:\n{(done.stdout + done.stderr)[-1000:]}")
        if checksums is not None:
            _check(server, new, checksums)
    return jars


def _check(server: str, directory: Path, checksums: Mapping[str, str]) -> None:
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}
    if found != checksums:
        other = sorted(name for name in found.keys() | checksums.keys() if found.get(name) != checksums.get(name))
        raise ConfigurationError(
            f"{server}: files fetched by Maven do not have the expected checksums: {', '.join(other)}"
        )
