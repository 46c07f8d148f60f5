"""Text from a socket, as a source."""

from penstock.connectors.socket.source import SocketTextSource

__all__ = ["SocketTextSource"]
