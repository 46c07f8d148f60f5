"""The modules of options that have a subject of their own. All others are in `options.py`, which adds these."""

from penstock.common.configuration import (
    autoscaler_options,
    flame_graph_options,
    high_availability_options,
    java_options,
    network_options,
    postgres_options,
    redis_options,
    rest_options,
    restart_options,
    scheduler_options,
    spark_options,
    ssl_options,
    trace_options,
    worker_options,
)
from penstock.common.files import cached_files

GROUPS = (
    rest_options,
    ssl_options,
    flame_graph_options,
    postgres_options,
    redis_options,
    restart_options,
    autoscaler_options,
    scheduler_options,
    trace_options,
    cached_files,
    java_options,
    high_availability_options,
    worker_options,
    network_options,
    spark_options,
)
"""In the order of the reference."""
