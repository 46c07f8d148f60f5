"""Servers for connectors, on the loopback, until Ctrl-C: Kafka with a schema registry, PostgreSQL, Redis, S3.

python -m penstock.testing.servers
"""

from __future__ import annotations

from penstock.testing.kafka_broker import kafka
from penstock.testing.postgres_server import postgres
from penstock.testing.redis_server import redis
from penstock.testing.s3_server import s3
from penstock.testing.schema_registry_server import schema_registry
from penstock.testing.server_process import serve

if __name__ == "__main__":
    serve(*(start() for start in (kafka, postgres, redis, schema_registry, s3)))
