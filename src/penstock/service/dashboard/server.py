"""Serve the pages: a port on the loopback, a token, and the guard of REST around all answers of NiceGUI."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.common.doors import extras
from penstock.common.errors import ConfigurationError
from penstock.common.files.cache_directory import cache_directory
from penstock.service.cluster.rest_address import RestAddress, write_token
from penstock.service.cluster.running_dashboard import announce_dashboard
from penstock.service.dashboard.endpoints import Endpoints
from penstock.service.rest.token_server import bound_socket

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGES = ("/job/",)
"""Prefixes of the paths of pages, in addition to `/`."""
POLICY = (
    # NiceGUI's page is a script in the page, and Vue compiles templates in the browser.
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: a page loads everything from here, and sends nothing elsewhere."""


def serve(
    endpoints: Endpoints,
    ports: str,
    on_served: Callable[[RestAddress], object],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Serve until the process is interrupted. `on_served` receives the address once requests are accepted.

    Raises ConfigurationError if NiceGUI is not installed, or no port is free.
    """
    check_installed()
    listening = bound_socket(ports)
    port = listening.getsockname()[1]
    token = secrets.token_hex(32)
    file = write_token(cache_directory(environ) / "rest", port, token)
    files = [file]
    try:
        if endpoints.has_all:
            files.append(announce_dashboard(f"http://127.0.0.1:{port}", environ))
        import uvicorn

        config = uvicorn.Config(
            _application(endpoints, token, f"penstock-{port}"),
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        # Remove its files for both signals that end it.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        on_served(RestAddress(f"http://127.0.0.1:{port}", str(file)))
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
    finally:
        listening.close()
        for one in files:
            one.unlink(missing_ok=True)


def check_installed() -> None:
    """Raise ConfigurationError with what to install unless the extra is installed."""
    from importlib.util import find_spec

    if find_spec("nicegui") is None:
        raise ConfigurationError(
            f"the dashboard needs NiceGUI: pip install '{extras.DASHBOARD}'. Without it "
            "penstock top shows a job in the terminal"
        )


def _application(endpoints: Endpoints, token: str, cookie: str) -> FastAPI:
    from fastapi import FastAPI
    from nicegui import ui

    from penstock.service.dashboard.pages import register_pages
    from penstock.service.rest.guard import Guard

    register_pages(endpoints)
    # FastAPI's own pages about its paths load scripts from elsewhere, and there is nothing to describe.
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    ui.run_with(application, title="penstock", favicon=_FAVICON, dark=None, tailwind=False, show_welcome_message=False)
    application.add_middleware(Guard, token=token, cookie=cookie, policy=POLICY, pages=PAGES)
    return application


_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="6" fill="#00796b"/>'
    '<path d="M6 11h20M6 16h20M6 21h20" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>'
)
