"""A source that reads other sources one after the other, at PyFlink's module path."""

from penstock.common.doors.door import publish
from penstock.connectors.hybrid.source import HybridSource, HybridSourceBuilder, SourceFactory, SourceSwitchContext

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceFactory", "SourceSwitchContext"]

publish(__name__, __all__)
