"""Servers that tests need. Each is started once, on the loopback, and stopped at the end."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.kafka_topics import PASSWORD, Topics, skip_without_broker
from tests.connectors.postgres_tables import Tables
from tests.connectors.tls import certificate

from penstock.common.errors import ConfigurationError
from penstock.testing.kafka_broker import KafkaBroker, Secured
from penstock.testing.postgres_server import PostgresServer, server_programs
from penstock.testing.redis_server import RedisServer, server_program
from penstock.testing.s3_server import S3Server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A server that speaks S3's protocol; it starts within two seconds."""
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket, reached as in production: by the environment."""
    for name, value in s3.environment.items():
        monkeypatch.setitem(os.environ, name, value)
    return s3.create_bucket(f"checkpoints-{uuid.uuid4().hex}")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A Kafka broker. Tests that need it are in one file, so that one is started: that takes seconds."""
    skip_without_broker()
    with KafkaBroker(Secured("alice", PASSWORD, certificate(tmp_path_factory.mktemp("kafka")))) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; it starts within two seconds."""
    yield from _postgres()


@pytest.fixture(scope="session")
def captured_postgres() -> Iterator[PostgresServer]:
    """A server for tests of changes: a slot is created when no transaction is open, and other tests leave some
    prepared.
    """
    yield from _postgres()


@pytest.fixture(scope="session")
def plain_postgres() -> Iterator[PostgresServer]:
    """A server without prepared transactions, the default of PostgreSQL."""
    yield from _postgres(prepared_transactions=0)


def _postgres(prepared_transactions: int = 64) -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="pip install 'penstock-streams[postgres]'")
    try:
        server_programs()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with PostgresServer(prepared_transactions) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis server; it starts within a second."""
    pytest.importorskip("redis", reason="pip install 'penstock-streams[redis]'")
    try:
        server_program()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with RedisServer() as server:
        yield server


@pytest.fixture
def captured(captured_postgres: PostgresServer) -> Iterator[Tables]:
    """Tables, without slots at the end."""
    tables = Tables(captured_postgres.url)
    yield tables
    # Another connection: the test may have ended the server meanwhile.
    after = Tables(captured_postgres.url)
    after.execute("SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE active")
    after.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for one in (tables, after):
        one.connection.close()


@pytest.fixture
def topics(kafka: KafkaBroker) -> Topics:
    return Topics(kafka.bootstrap)


@pytest.fixture
def ca(kafka: KafkaBroker) -> Path:
    assert kafka.secured is not None
    return kafka.secured.key_and_certificate.with_name("ca.pem")
