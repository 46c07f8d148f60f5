"""Fetch the output of a job from its cluster over REST, and write it to standard output."""

from __future__ import annotations

import codecs
import http.client
import json
import sys
import threading

from penstock.service.client.rest_client import RestClient


class RemoteOutput:
    """Read the output of the job with this id, of its submission or its own. Threads may share it."""

    def __init__(self, cluster: RestClient, id: str) -> None:
        self._cluster = cluster
        self._path = f"/submissions/{id}/output?from="
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._showing = threading.Lock()

    def show(self) -> None:
        """Write the output since the last call. Raises JobError, UnreachableError."""
        with self._showing:
            while output := self._fetched():
                self._shown += len(output)
                # A part may end within a character.
                sys.stdout.write(self._decoder.decode(output))
                sys.stdout.flush()

    def _fetched(self) -> bytes:
        status, answer = self._cluster.answer("GET", f"{self._path}{self._shown}")
        if status != http.client.GONE:
            return self._cluster.checked(status, answer, self._path)
        begin = int(json.loads(answer)["begin"])
        sys.stderr.write(
            f"({begin - self._shown:,} bytes of the job's output are missing here: its cluster keeps only the newest "
            "part)\n"
        )
        self._shown = begin
        return self._fetched()
