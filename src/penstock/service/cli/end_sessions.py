"""`penstock end-sessions`: end what `run --keep-session` has kept."""

from __future__ import annotations

import os

import typer


def end_sessions() -> None:
    """End the JVMs that `run --keep-session` keeps, and that no program uses."""
    # Imported here, not at the top: `penstock --help` is to answer at once.
    from penstock.hosts.spark.driver.kept_jvm import end_free

    count = end_free(os.environ)
    typer.echo(f"{count} ended" if count else "none is kept, or all are in use", err=True)
