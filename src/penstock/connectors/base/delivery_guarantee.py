"""Delivery guarantees of sinks."""

import enum


class DeliveryGuarantee(enum.Enum):
    """State how often readers of committed output see each record, failures included."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


def checked_guarantee(sink: str, guarantee: DeliveryGuarantee) -> DeliveryGuarantee:
    """Return `guarantee` if a sink with commits can give it. Raise ValueError for another."""
    if guarantee not in (DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE):
        raise ValueError(f"the guarantee of a {sink} must be AT_LEAST_ONCE or EXACTLY_ONCE, got {guarantee!r}")
    return guarantee
