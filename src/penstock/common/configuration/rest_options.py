"""The options of REST: where jobs are served, and which cluster takes them."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_key = ConfigOptions.key

REST_BIND_PORT = (
    _key("rest.bind-port")
    .string_type()
    .no_default_value()
    .with_description(
        "Port of the REST endpoint on 127.0.0.1: one, a list or a range, e.g. 8081-8099,0; 0 is any free one; "
        "empty: there is none. Not set: penstock run tries 8081-8099,0, and python has none."
    )
)
REST_ADDRESS = (
    _key("rest.address")
    .string_type()
    .no_default_value()
    .with_description(
        "With execution.target: remote, the host of the cluster that runs the jobs: penstock run -m HOST:PORT. "
        "Not set: the one that this user has started on this machine."
    )
)
REST_PORT = (
    _key("rest.port").int_type(least=1).default_value(8081).with_description("The port of the cluster at rest.address.")
)
ATTACHED = (
    _key("execution.attached")
    .boolean_type()
    .default_value(True)
    .with_description(
        "With execution.target: remote, whether env.execute() waits for the end of the job, and shows what it prints; "
        "false: penstock run -m HOST:PORT -d. (In Flink false by default, and true for flink run without -d.)"
    )
)
