"""What a sink promises about each record."""

import enum


class DeliveryGuarantee(enum.Enum):
    """How often a record is seen by whoever reads what a sink has committed, failures included."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"
