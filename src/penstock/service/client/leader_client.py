"""A REST client that follows the leader of a cluster, and looks for the new one when a leader is gone."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from typing import IO

from penstock.common.configuration import Configuration
from penstock.common.configuration import high_availability_options as options
from penstock.common.configuration.choices import HighAvailabilityMode
from penstock.common.errors import ConfigurationError
from penstock.common.http import Answer
from penstock.service.client.rest_client import TOKEN, RestClient, UnreachableError
from penstock.service.cluster.high_availability.register import LeaderAddress
from penstock.service.cluster.high_availability.services import cluster_folder, register_of

_ANSWER_S = 10.0
_LEADER_S = 30.0
_PAUSE_S = 0.2
_LOOPBACK = re.compile(r"https?://127\.0\.0\.1:(\d+)")


class LeaderClient(RestClient):
    """Ask the leader of a cluster that elects one. `configuration`: the cluster's. Raises ConfigurationError.

    `answer_s`: how long an answer may take; None: any time. A suspended leader accepts a connection but sends nothing:
    no answer means that the leader is gone.
    """

    follows_leader = True

    def __init__(self, configuration: Configuration, answer_s: float | None = _ANSWER_S) -> None:
        super().__init__(_name_of(configuration), "", answer_s)
        self._configuration = configuration
        self._register = register_of(configuration)
        self._folder = cluster_folder(configuration)
        self._lock = threading.Lock()
        self._found: RestClient | None = None

    def without_timeout(self) -> RestClient:
        """The address of the current leader, once known."""
        return self._leader().without_timeout()

    def address(self) -> LeaderAddress:
        """Find the current leader. Raises UnreachableError."""
        try:
            leader = self._register.leader()
        except OSError as error:
            raise UnreachableError(f"cannot find the leader of {self.url}: {error}") from error
        if leader is None or not leader.url:
            raise UnreachableError(f"{self.url} has no leader at present")
        return leader

    def wait_for_leader(self) -> None:
        """Return when the cluster has a leader.

        Raises ConfigurationError after half a minute, or if the register fails.
        """
        until_s = time.monotonic() + _LEADER_S
        while True:
            try:
                self._leader()
                return
            except UnreachableError as error:
                if time.monotonic() > until_s:
                    raise ConfigurationError(
                        f"{error}. To start one: penstock cluster start, with these settings"
                    ) from None
                time.sleep(_PAUSE_S)

    def answer(self, method: str, path: str, body: bytes | IO[bytes] | None = None) -> Answer:
        """Ask the current leader. Raises UnreachableError if there is none, or it does not answer."""
        leader = self._leader()
        try:
            return leader.answer(method, path, body)
        except UnreachableError:
            with self._lock:
                self._found = None
            raise

    def _leader(self) -> RestClient:
        with self._lock:
            if self._found is None:
                self._found = self._find()
            return self._found

    def _find(self) -> RestClient:
        leader = self.address()
        _check_reach(leader, self._configuration.get(options.TYPE))
        return RestClient(leader.url, self._token_of(), self._timeout_s)

    def _token_of(self) -> str:
        token = os.environ.get(TOKEN)
        if token is not None:
            return token
        file = self._folder / "token"
        try:
            return file.read_text(encoding="ascii")
        except OSError as error:
            raise ConfigurationError(
                f"cannot read the token of {self.url}: {error}. Is {options.STORAGE_DIRECTORY.key} that of the "
                f"cluster, and are you its user? Otherwise set {TOKEN}"
            ) from None


def _name_of(configuration: Configuration) -> str:
    kind = configuration.get(options.TYPE).value
    where = configuration.get(options.ZOOKEEPER_QUORUM) or configuration.get(options.STORAGE_DIRECTORY)
    return f"the cluster '{configuration.get(options.CLUSTER_ID)}' ({kind}: {where})"


def _check_reach(leader: LeaderAddress, kind: HighAvailabilityMode) -> None:
    """Refuse an address where no cluster can serve: someone who can write to the register could divert the token."""
    served = _LOOPBACK.fullmatch(leader.url)
    if served is None:
        raise ConfigurationError(f"expected the address of a penstock cluster as the leader's, got {leader.url}")
    if leader.host != socket.gethostname():
        port = served[1]
        tunnel = f"ssh -N -L {port}:127.0.0.1:{port} {leader.host}"
        if kind is HighAvailabilityMode.KUBERNETES:
            tunnel = f"kubectl port-forward pod/{leader.host} {port}:{port}"
        raise ConfigurationError(
            f"the cluster is led on {leader.host}, which serves its own machine only. Run this there; or tunnel to it "
            f"({tunnel}) and use -m 127.0.0.1:{port} without "
            f"{options.TYPE.key}, with the token in {TOKEN}"
        )
