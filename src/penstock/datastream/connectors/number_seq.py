"""A source of consecutive whole numbers."""

from penstock.connectors.base.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
