"""The events of the Nexmark benchmark, as a source. Not in PyFlink."""

from penstock.common.doors.door import publish
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import NexmarkGenerator
from penstock.connectors.nexmark.source import NexmarkSource, NexmarkSourceBuilder

__all__ = [
    "NexmarkConfiguration",
    "NexmarkGenerator",
    "NexmarkSource",
    "NexmarkSourceBuilder",
    "RateLimiter",
    "RateLimiterStrategy",
]

publish(__name__, __all__)
