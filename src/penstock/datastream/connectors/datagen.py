"""A source that computes its records from their numbers."""

from penstock.connectors.data_generator import DataGeneratorSource
from penstock.connectors.rate_limiter import RateLimiter, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiter", "RateLimiterStrategy"]
