"""The master of a standalone cluster: check that it is reachable, and list the applications that hold its slots.

Spark tries for minutes to reach a master that does not exist, and logs hundreds of lines. So penstock connects first.
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
"""Limits the wait for a host that drops packets."""
_REFUSED_SECONDS = 5.0
"""A cluster that is starting refuses connections until its master listens."""
_PAGE_SECONDS = 5.0


def reach(master: str, timeout_s: float = _REFUSED_SECONDS) -> str:
    """Connect to a master, spark://HOST:PORT, or to the first of several that answers, spark://HOST:PORT,HOST:PORT.

    Returns the connection's address on this machine, at which the cluster reaches the driver. Raises
    MasterUnreachableError if no master answers within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    has_warned = False
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
                f"or correct spark.master: {PREFIX}HOST:PORT, with port {_DEFAULT_PORT} by default"
            )
        if not has_warned:
            has_warned = True
            _log.warning("waiting for the Spark master: %s", "; ".join(reasons))
        time.sleep(0.2)


def is_reachable(master: str) -> bool:
    """Return whether a master accepts connections now."""
    try:
        reach(master, timeout_s=0)
    except MasterUnreachableError:
        return False
    return True


def slot_holders(master: str, page_port: str) -> str:
    """Return a sentence with the applications that hold the slots of a cluster, or "" if the master does not answer.

    `page_port`: the port of the master's web UI, the setting `spark.master.ui.port`.
    """
    for address in master.removeprefix(PREFIX).split(","):
        host, _, _ = address.rpartition(":")
        # Ignore proxies of the environment: a cluster is in the local network.
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
    holders = (
        ", ".join(f"'{app['name']}' of {app['user']} ({app['cores']}, {app['id']})" for app in apps) or "no application"
    )
    return (
        f"The cluster has {total} slots on {len(workers)} worker{'s'[: len(workers) != 1]}, {total - used} free "
        f"(by worker: {free}), held by {holders}"
    )
