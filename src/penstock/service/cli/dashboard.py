"""`penstock dashboard`: serve pages about jobs, from a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.common.errors import PenstockError

if TYPE_CHECKING:
    from penstock.service.cluster.rest_address import RestAddress

_PORTS = "8181-8199,0"

Address = Annotated[
    str | None,
    typer.Argument(
        metavar="[HOST:PORT]",
        show_default=False,
        help="REST endpoint of a job or a cluster; default: all current ones of this user on this machine.",
    ),
]
Port = Annotated[str, typer.Option("--port", metavar="PORT", help="Port of the pages, on this machine only.")]


def dashboard(address: Address = None, port: Port = _PORTS) -> None:
    """Serve pages about jobs until Ctrl-C: graph, rates, back pressure, checkpoints, exceptions, state, logs.

    
      penstock dashboard
      penstock dashboard localhost:8081 --port 9000
    """
    from penstock.service.dashboard.endpoints import Endpoints
    from penstock.service.dashboard.server import check_installed, serve

    try:
        check_installed()
        serve(Endpoints(address), port, _print_address)
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _print_address(served: RestAddress) -> None:
    from penstock.service.cluster.rest_address import shown_address

    typer.echo(f"dashboard: {shown_address(served)}", err=True)
