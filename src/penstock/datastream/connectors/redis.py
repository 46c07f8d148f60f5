"""Redis source, sink and lookup; they need the extra `redis`, `pip install 'penstock-streams[redis]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.redis.lookup.lookup import RedisLookup
from penstock.connectors.redis.sink.sink import RedisSink
from penstock.connectors.redis.source.deserialization import RedisStreamEntry
from penstock.connectors.redis.source.source import RedisStreamSource
from penstock.connectors.redis.source.starting_position import RedisStreamPosition

__all__ = [
    "DeliveryGuarantee",
    "RedisLookup",
    "RedisSink",
    "RedisStreamEntry",
    "RedisStreamPosition",
    "RedisStreamSource",
]

publish(__name__, __all__)
