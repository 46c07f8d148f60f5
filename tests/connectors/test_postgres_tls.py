"""The PostgreSQL connector over TLS."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.connectors.driven import SourceInTest, prepared
from tests.connectors.postgres_changes import afters, changes_of
from tests.connectors.postgres_tables import Tables
from tests.connectors.tls import certificate
from tests.connectors.tls_proxy import with_tls

from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink, PostgresSource
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.connectors


def test_sources_and_sinks_speak_tls(captured: Tables, tmp_path: Path) -> None:
    """Rows would cross the network for all to read; or changes would stop where a block of TLS ends."""
    plain = psycopg.conninfo.conninfo_to_dict(captured.url)
    # The server may be built without TLS. Clients begin with it at once, so a proxy need not know their protocol.
    with with_tls(int(plain["port"]), certificate(tmp_path), "postgresql") as port:
        ca = (tmp_path / "ca.pem").rename(tmp_path / "trusted.pem")
        url = captured.url.replace(f":{plain['port']}/", f":{port}/")
        url += "?sslmode=verify-full&sslnegotiation=direct&sslrootcert="
        tables = Tables(f"{url}{ca}")
        assert tables.connection.pgconn.ssl_in_use
        table = tables.create()
        run = SourceInTest(changes_of(tables, table))
        guarantee = DeliveryGuarantee.EXACTLY_ONCE
        exactly = PostgresSink(url=tables.url, table=table, columns=["id", "name"], delivery_guarantee=guarantee)
        writer = exactly.create_writer(SimpleSinkContext(0, 1, "f-1-1-a"))
        for number in range(3000):
            writer.write((number, "x" * 100), None)
        committables, _ = prepared(writer)
        exactly.create_committer().commit(committables)
        writer.close()

        assert [row["id"] for row in afters(run.values(3000))] == list(range(3000))
        rows = SourceInTest(PostgresSource(url=tables.url, table=table, partition_column="id"))
        assert len(rows.values()) == 3000
        certificate(tmp_path)
        with pytest.raises(psycopg.OperationalError, match="certificate verify failed"):
            psycopg.connect(f"{url}{tmp_path / 'ca.pem'}")
        for one in (run, rows):
            one.close()
        tables.connection.close()
