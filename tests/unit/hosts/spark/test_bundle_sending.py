"""A job's bundle is handed to Spark once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.hosts.spark.driver.job_session import send_bundle


class Context:
    def __init__(self) -> None:
        self.listFiles: list[str] = []

    def addFile(self, path: str) -> None:  # noqa: N802  # Spark's.
        assert path not in self.listFiles, "Spark refuses a second file of one name"
        self.listFiles.append(f"spark://host:1/files/{Path(path).name}")


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()


def test_each_bundle_is_sent_once_to_a_session() -> None:
    """The second job of a program with the same code would be refused by Spark."""
    session: Any = Session()
    for bundle in (Path("/a/code-1.zip"), Path("/a/code-1.zip"), Path("/b/code-1.zip"), None, Path("/a/code-2.zip")):
        send_bundle(session, bundle)
    assert session.sparkContext.listFiles == ["spark://host:1/files/code-1.zip", "spark://host:1/files/code-2.zip"]
