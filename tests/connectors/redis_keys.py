"""Keys of a server, as tests make and read them."""

from __future__ import annotations

import uuid
from typing import Any

import redis


class Keys:
    """On one server, as its clients see them. Names are those of one test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = f"t{uuid.uuid4().hex[:12]}"
        self.client = redis.Redis.from_url(url, protocol=2, decode_responses=True)

    def name(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    def execute(self, *command: Any) -> Any:
        return self.client.execute_command(*command)

    def hashes(self, pattern: str = "*") -> dict[str, dict[str, str]]:
        """By name, without the prefix of the test."""
        names = sorted(self.client.scan_iter(match=self.name(pattern), count=1000, _type="hash"))
        return {name.removeprefix(f"{self.prefix}:"): self.client.hgetall(name) for name in names}

    def entries(self, stream: str) -> list[dict[str, str]]:
        return [fields for _, fields in self.client.xrange(self.name(stream))]

    def of_penstock(self, job_id: str) -> list[str]:
        """Return the keys that the sink of a job uses internally."""
        return sorted(self.client.scan_iter(match=f"penstock/{job_id}/*", count=1000))
