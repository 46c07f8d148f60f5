"""Delivery guarantees of sinks."""

import enum


class DeliveryGuarantee(enum.Enum):
    """How often readers of committed output see each record, failures included."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"
