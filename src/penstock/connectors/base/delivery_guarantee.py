"""Delivery guarantees of sinks."""

import enum


class DeliveryGuarantee(enum.Enum):
    """How often readers of committed output see each record, failures included."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


def checked_guarantee(sink: str, guarantee: DeliveryGuarantee) -> DeliveryGuarantee:
    """Return a guarantee that a sink with commits can give. Raise ValueError for another."""
    if guarantee not in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
        raise ValueError(f"a {sink} is AT_LEAST_ONCE or EXACTLY_ONCE, got {guarantee!r}")
    return guarantee
