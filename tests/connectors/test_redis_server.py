"""The Redis server that tests and people start."""

from __future__ import annotations

import pytest
import redis
from tests.connectors.redis_keys import Keys

from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


def test_what_was_answered_is_there_after_a_kill() -> None:
    """Tests of restarts would show nothing."""
    with RedisServer() as server:
        keys = Keys(server.url)
        keys.execute("SET", keys.name("a"), "1")
        server.kill()
        with pytest.raises(redis.ConnectionError):
            keys.execute("GET", keys.name("a"))
        server.start()

        assert keys.execute("GET", keys.name("a")) == "1"
