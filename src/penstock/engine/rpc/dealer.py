"""The client's end of a connection to a job's control port."""

from __future__ import annotations

import zmq

from penstock.engine.rpc.keys import ControlAddress


def dealer(context: zmq.Context[zmq.Socket[bytes]], address: ControlAddress, linger_ms: int) -> zmq.Socket[bytes]:
    """A socket that is connected with the port, by the job's keys.

    `linger_ms`: how long what was not sent is still tried when the socket is closed.
    """
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    socket.curve_serverkey = address.server_public
    socket.curve_publickey = address.client_public
    socket.curve_secretkey = address.client_secret
    socket.linger = linger_ms
    socket.connect(address.endpoint)
    return socket
