"""TLS in front of a server without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def with_tls(port: int, key_and_certificate: Path, protocol: str | None = None) -> Iterator[int]:
    """A port of the loopback where TLS is spoken, and what is said is passed on to `port`.

    `protocol`: its name, for clients that ask for it (ALPN).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_and_certificate)
    if protocol is not None:
        context.set_alpn_protocols([protocol])
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(LOOPBACK, port)
        await asyncio.gather(_pass_on(reader, to_server), _pass_on(from_server, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, LOOPBACK, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        loop.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.close()
