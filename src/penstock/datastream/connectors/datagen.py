"""A source that computes its records from their sequence numbers."""

from penstock.common.doors.door import publish
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.generated_fields import FieldGenerator, FieldGenerators, GeneratedFields
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy

__all__ = [
    "DataGeneratorSource",
    "FieldGenerator",
    "FieldGenerators",
    "GeneratedFields",
    "RateLimiter",
    "RateLimiterStrategy",
]

publish(__name__, __all__)
