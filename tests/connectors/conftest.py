"""Servers that tests need. Each is started once, on the loopback, and stopped at the end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of a server that speaks S3's protocol."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_it_listens(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket, reached as in production: by the environment."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        # Nothing else is asked for credentials.
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setitem(os.environ, name, value)
    name = f"checkpoints-{uuid.uuid4().hex}"
    boto3.client("s3").create_bucket(Bucket=name)
    return f"s3://{name}"


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
    """One for tests of changes: a slot is made when no transaction is open, and other tests leave some prepared."""
    yield from _postgres()


@pytest.fixture(scope="session")
def plain_postgres() -> Iterator[PostgresServer]:
    """One without prepared transactions, as servers come."""
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
