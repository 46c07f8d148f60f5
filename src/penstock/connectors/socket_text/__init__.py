"""Text from a socket, as a source."""

from penstock.connectors.socket_text.source import SocketTextSource

__all__ = ["SocketTextSource"]
