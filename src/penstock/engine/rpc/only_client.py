"""Who may connect to a socket of a job: those that hold its keys."""

from __future__ import annotations


class OnlyClient:
    """Admits only clients with the job's own key, as ZeroMQ asks for it."""

    def __init__(self, client_public: bytes) -> None:
        self._client_public = client_public

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._client_public
