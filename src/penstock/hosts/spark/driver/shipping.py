"""Sends a job's bundle to the executors: by Spark, which gives it to each that runs a task, also to later ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(session: SparkSession, bundle: Path | None) -> None:
    """Let executors of this session have the file from now on; None: there is none. May be called again."""
    if bundle is None:
        return
    context = session.sparkContext
    # By its name, which stands for its content: Spark refuses a second file of one name.
    if not any(uri.rsplit("/", 1)[-1] == bundle.name for uri in context.listFiles):
        context.addFile(str(bundle))
