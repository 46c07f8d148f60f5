"""Hold the keys of a job's control plane: made when it is submitted, known only to its driver and tasks."""

from __future__ import annotations

import msgspec
import zmq


class ControlKeys(msgspec.Struct, frozen=True):
    """Two CURVE key pairs. The server accepts only this client key."""

    server_public: bytes
    server_secret: bytes
    client_public: bytes
    client_secret: bytes


class ControlAddress(msgspec.Struct, frozen=True):
    """A slot's access to its JobMaster. It travels to the executors inside the stage's function."""

    endpoint: str
    server_public: bytes
    client_public: bytes
    client_secret: bytes


def make_keys() -> ControlKeys:
    """Make a new pair for each side."""
    return ControlKeys(*zmq.curve_keypair(), *zmq.curve_keypair())
