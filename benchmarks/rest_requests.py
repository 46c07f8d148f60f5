"""CPU of the driver for a request of REST, at a steady rate beside a stream: by path, and without any. Item 35.

The requests come from a process of its own, whose CPU does not count; connections are kept. `…_cpu_ms` is what the
driver needs beyond what it needs without requests, by request.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import urlsplit

from benchmarks.latency import through_exchanges
from benchmarks.measurement import environment, options, tell
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_jobs import JobRegistry

_POLL_S = 0.05
_SETTLE_S = 5.0


class Client:
    """Of one endpoint, by one connection."""

    def __init__(self, rest: RestAddress) -> None:
        place = urlsplit(rest.url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port)
        self._headers = {"Authorization": f"Bearer {rest.token()}"}

    def get(self, path: str) -> Any:
        """What is answered. Raises RuntimeError if it is an error."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text.decode()}")
        return json.loads(text) if "json" in answer.headers["Content-Type"] else text


def paths_of(client: Client, job: str) -> dict[str, list[str]]:
    """What is asked of a job, by name."""
    vertices = [vertex["id"] for vertex in client.get(f"/jobs/{job}")["vertices"]]
    return {
        "overview": ["/jobs/overview"],
        "job": [f"/jobs/{job}"],
        "metrics": [f"/jobs/{job}/vertices/{v}/subtasks/metrics?get=numRecordsInPerSecond" for v in vertices],
        "checkpoints": [f"/jobs/{job}/checkpoints"],
        "prometheus": ["/metrics"],
    }


def generate(orders: Connection, rest: RestAddress, per_second: float) -> None:
    """Ask for the paths of each order in turn, at a steady rate, until the next one; None: nothing."""
    client = Client(rest)
    while (paths := orders.recv()) is not False:
        number, began = 0, time.monotonic()
        while paths is not None and not orders.poll():
            time.sleep(max(0.0, began + number / per_second - time.monotonic()))
            client.get(paths[number % len(paths)])
            number += 1
        orders.send(number)


def cores(seconds: float) -> float:
    """That this process uses, all of its threads."""
    before, began = time.process_time(), time.monotonic()
    time.sleep(seconds)
    return (time.process_time() - before) / (time.monotonic() - began)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=1_000, help="records/s of the stream")
    parser.add_argument("--requests", type=float, default=200, help="requests/s")
    arguments = parser.parse_args()
    arguments.conf.append("rest.bind-port=0")
    env = environment(arguments)
    through_exchanges(env, arguments.rate, 1).add_sink(lambda _: None)
    job = env.execute_async("requests")
    while not (known := [one.rest for one in JobRegistry().jobs() if one.job_id == str(job.get_job_id()) and one.rest]):
        time.sleep(_POLL_S)
    (rest,) = known
    assert rest is not None
    time.sleep(arguments.warm_up + _SETTLE_S)
    paths = paths_of(Client(rest), str(job.get_job_id()))
    context = multiprocessing.get_context("spawn")
    orders, end = context.Pipe()
    generator = context.Process(target=generate, args=(end, rest, arguments.requests), daemon=True)
    generator.start()
    told = {"without_cores": cores(arguments.seconds)}
    for name, asked in paths.items():
        orders.send(asked)
        began = time.monotonic()
        used = cores(arguments.seconds)
        orders.send(None)
        answered = orders.recv() / (time.monotonic() - began)
        orders.recv()
        told[f"{name}_per_s"] = answered
        told[f"{name}_cpu_ms"] = 1000 * (used - told["without_cores"]) / answered
    orders.send(False)
    generator.join(timeout=10)
    job.cancel().result()
    tell(told)


if __name__ == "__main__":
    main()
