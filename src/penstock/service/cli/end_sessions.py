"""`penstock end-sessions`: end the JVMs that `run --keep-session` keeps."""

from __future__ import annotations

import os

import typer


def end_sessions() -> None:
    """End the JVMs that `run --keep-session` keeps and no program uses."""
    # Imported here, so that `penstock --help` stays fast.
    from penstock.hosts.spark.driver.kept_jvm import end_free

    count = end_free(os.environ)
    typer.echo(f"{count} ended" if count else "no idle JVM to end", err=True)
