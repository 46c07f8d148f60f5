"""Redis by TLS."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.connectors.redis_keys import Keys
from tests.connectors.tls import certificate
from tests.connectors.tls_proxy import with_tls

from penstock.connectors.redis.server import RedisError
from penstock.datastream.connectors.redis import RedisSink
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


def test_the_servers_certificate_is_checked(redis_server: RedisServer, tmp_path: Path) -> None:
    """Records and the password would go to any server at the address."""
    keys = Keys(redis_server.url)
    plain = urlsplit(redis_server.url)
    assert plain.port is not None
    with with_tls(plain.port, certificate(tmp_path)) as port:
        url = f"rediss://{plain.username}:{plain.password}@127.0.0.1:{port}/0"

        def sink_to(url: str) -> RedisSink:
            return RedisSink(url=url, hash_key=lambda record: keys.name(record[0]), fields=["name"])

        with pytest.raises(RedisError, match="certificate verify failed"):
            sink_to(url).validate()

        writer = sink_to(f"{url}?ssl_ca_certs={tmp_path / 'ca.pem'}").create_writer(SimpleSinkContext())
        writer.write_chunk([("a",)], None)
        writer.flush(True)
        writer.close()
    assert keys.hashes() == {"a": {"name": "a"}}
    keys.client.close()
