"""The master of a standalone cluster: whether it can be reached, from which address, and who holds its slots.

Spark tries for minutes to reach a master that is not there, and says so on hundreds of lines. Here it is asked first.
"""

from __future__ import annotations

import json
import logging
import socket
import time
import urllib.request
from typing import Any

from penstock.common.errors import MasterUnreachableError

_log = logging.getLogger(__name__)

PREFIX = "spark://"
_DEFAULT_PORT = 7077
_CONNECT_SECONDS = 2.0
"""A host that drops what is sent to it would be silent for longer."""
_REFUSED_SECONDS = 5.0
"""A cluster that is just being started refuses connections until its master listens."""
_PAGE_SECONDS = 5.0


def reach(master: str, patience_s: float = _REFUSED_SECONDS) -> str:
    """Connect to a master, spark://HOST:PORT, or the first of several that answers, spark://HOST:PORT,HOST:PORT.

    Returns the address of this machine that the connection had: the one at which the cluster reaches the driver. Raises
    MasterUnreachableError if none answers within `patience_s`.
    """
    deadline = time.monotonic() + patience_s
    waits = False
    while True:
        reasons = []
        for address in master.removeprefix(PREFIX).split(","):
            host, _, port = address.rpartition(":")
            try:
                with socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS) as connection:
                    return str(connection.getsockname()[0])
            except (OSError, ValueError) as error:
                reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        if time.monotonic() > deadline:
            raise MasterUnreachableError(
                f"no Spark master answers at {master} ({'; '.join(reasons)}): nothing was started. Start the cluster, "
                f"or correct spark.master, which is {PREFIX}HOST:PORT, with port {_DEFAULT_PORT} unless set otherwise"
            )
        if not waits:
            waits = True
            _log.warning("waiting for the Spark master: %s", "; ".join(reasons))
        time.sleep(0.2)


def answers(master: str) -> bool:
    """Whether a master takes connections now."""
    try:
        reach(master, patience_s=0)
    except MasterUnreachableError:
        return False
    return True


def holders(master: str, page_port: str) -> str:
    """Who holds the slots of a cluster, in one sentence, from the master's page; empty if it can't be asked.

    `page_port`: the setting `spark.master.ui.port`.
    """
    for address in master.removeprefix(PREFIX).split(","):
        host, _, _ = address.rpartition(":")
        # No proxy: a cluster is not behind it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{host}:{page_port}/json/", timeout=_PAGE_SECONDS) as answer:
                state = json.load(answer)
            if state["url"] == f"{PREFIX}{address}" and state["status"] == "ALIVE":
                return _sentence(state)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ""


def _sentence(state: dict[str, Any]) -> str:
    workers = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
    total, used = sum(w["cores"] for w in workers), sum(w["coresused"] for w in workers)
    free = ", ".join(f"{w['coresfree']} with {w['memoryfree']} MB" for w in workers) or "none"
    apps = [app for app in state["activeapps"] if app["cores"]]
    held = (
        ", ".join(f"'{app['name']}' of {app['user']} ({app['cores']}, {app['id']})" for app in apps) or "no application"
    )
    return (
        f"The cluster has {total} slots on {len(workers)} worker{'s'[: len(workers) != 1]}, {total - used} free "
        f"(by worker: {free}), held by {held}"
    )
