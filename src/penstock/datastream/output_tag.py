"""Tags of side outputs, at PyFlink's module path."""

from penstock.api.output_tag import OutputTag
from penstock.common.doors.door import publish

__all__ = ["OutputTag"]

publish(__name__, __all__)
