"""Tags of side outputs, at PyFlink's module path."""

from penstock.common.output_tag import OutputTag

__all__ = ["OutputTag"]
