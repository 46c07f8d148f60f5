"""Text socket source."""

from penstock.connectors.socket.source import SocketTextSource

__all__ = ["SocketTextSource"]
