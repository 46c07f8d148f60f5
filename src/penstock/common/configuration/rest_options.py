"""The options of REST: its address, TLS, the cluster that runs jobs, and flame graphs.

Keys and certificates of TLS are PEM files, where Flink has Java's key stores. Source: Flink docs, "SSL Setup", "Flame
Graphs".
"""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import BooleanType, DurationType, IntegerType, TextType

REST_BIND_PORT = option("rest.bind-port", TextType(), None)
"""Port of the REST endpoint on 127.0.0.1: a port, a list or a range, e.g. 8081-8099,0; 0 is any free port; empty: no
endpoint. Not set: `penstock run` tries 8081-8099,0; a program started with python has no endpoint."""

REST_ADDRESS = option("rest.address", TextType(), None)
"""Host of the cluster that runs the jobs with execution.target: remote, as in `penstock run -m HOST:PORT`. Not set: the
cluster that this user has started on this machine."""

REST_PORT = option("rest.port", IntegerType(least=1), 8081)
"""The port of the cluster at rest.address."""

ATTACHED = option("execution.attached", BooleanType(), True)
"""Whether env.execute() waits for the end of the job, and shows what it prints, with execution.target: remote; false:
`penstock run -m HOST:PORT -d`. (Flink: false by default, and true for `flink run` without -d.)"""


# TLS

SSL_ENABLED = option("security.ssl.rest.enabled", BooleanType(), False)
"""Whether REST uses TLS (https), as a server and as a client of clusters."""

SSL_CERTIFICATE = option("security.ssl.rest.certificate", TextType(), None)
"""File (PEM) with the certificate of REST, followed by the certificates of its issuers."""

SSL_PRIVATE_KEY = option("security.ssl.rest.private-key", TextType(), None)
"""File (PEM) with the private key, not encrypted. Not set: the file of the certificate contains it."""


# Flame graphs

FLAME_GRAPH_ENABLED = option("rest.flamegraph.enabled", BooleanType(), False)
"""Whether REST has flame graphs of a job's vertices, which show where the threads of its tasks spend their time."""

FLAME_GRAPH_NUM_SAMPLES = option("rest.flamegraph.num-samples", IntegerType(least=1), 100)
"""Number of samples of each subtask in a flame graph."""

FLAME_GRAPH_DELAY_BETWEEN_SAMPLES = option("rest.flamegraph.delay-between-samples", DurationType(least_ms=1), 50)
"""The time between two samples of a subtask."""

FLAME_GRAPH_STACK_DEPTH = option("rest.flamegraph.stack-depth", IntegerType(least=1), 100)
"""Largest number of frames of a sample, counted from the innermost."""

FLAME_GRAPH_REFRESH_INTERVAL = option("rest.flamegraph.refresh-interval", DurationType(), 60_000)
"""Age of samples after which the next request takes new ones."""

FLAME_GRAPH_CLEANUP_INTERVAL = option("rest.flamegraph.cleanup-interval", DurationType(least_ms=1), 600_000)
"""How long samples are kept without a request."""
