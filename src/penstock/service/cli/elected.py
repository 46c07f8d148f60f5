"""Find the leader of a cluster by settings of high availability, for commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.service.cli.options import high_availability_in, settings_in, settings_of

if TYPE_CHECKING:
    from penstock.service.client.leader_client import LeaderClient


def leader_in(settings: list[str] | None, conf_file: Path | None) -> LeaderClient | None:
    """Return a client of the leader that the settings lead to, or None without settings of high availability.

    Raises typer.BadParameter for invalid settings, typer.Exit if the cluster has no leader.
    """
    given = high_availability_in(settings_in(conf_file) | settings_of(None, settings))
    if not given:
        return None
    from penstock.common.configuration import Configuration
    from penstock.common.errors import PenstockError
    from penstock.service.client.leader_client import LeaderClient
    from penstock.service.cluster.high_availability.services import is_highly_available

    configuration = Configuration.from_dict(given)
    if not is_highly_available(configuration):
        return None
    try:
        client = LeaderClient(configuration)
        client.wait_for_leader()
    except PenstockError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    return client
