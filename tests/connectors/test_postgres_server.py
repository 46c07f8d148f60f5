"""The PostgreSQL server that tests and people start."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from tests.connectors.postgres_tables import Tables

from penstock.testing.postgres_server import PostgresServer, server_programs
from penstock.testing.server_process import is_root

pytestmark = pytest.mark.connectors


def test_what_was_committed_is_there_after_a_kill(postgres: PostgresServer) -> None:
    """Tests of restarts would show nothing."""
    tables = Tables(postgres.url)
    table = tables.create()
    tables.execute(f"INSERT INTO {table} VALUES (1, 'a')")
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        tables.execute("SELECT 1")
    postgres.start()

    assert Tables(postgres.url).rows(table) == [(1, "a")]


@pytest.mark.skipif(not is_root(), reason="any other user runs the programs where they are")
def test_root_starts_it_from_a_folder_that_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment below root's home there would be no server: it runs as another user."""
    package = server_programs().parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    if not libraries.is_dir():
        pytest.skip("the programs are those of the machine")
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for folder in (package, libraries):
        shutil.copytree(folder, private / folder.name, symlinks=True)
    monkeypatch.syspath_prepend(private)
    assert server_programs().is_relative_to(private)

    with PostgresServer() as server:
        assert Tables(server.url).execute("SELECT 1") == [(1,)]
