"""A source of consecutive integers."""

from penstock.connectors.base.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
