"""A Python function in SQL, by PyFlink's API: the same program for penstock and PyFlink.

python -m benchmarks.peers.table_functions penstock general 1000000 [setting=value ...]

Runs it over a quarter of the rows twice, then over all. Prints a line of JSON at the end of each run.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any


def functions(package: str) -> dict[str, Any]:
    """Return the functions by kind."""
    udf = import_module(f"{package}.table.udf").udf
    kind = import_module(f"{package}.table").DataTypes.BIGINT()

    def increased(number: Any) -> Any:
        return number + 1

    return {"general": udf(increased, result_type=kind), "pandas": udf(increased, result_type=kind, func_type="pandas")}


def run(package: str, kind: str, rows: int, options: dict[str, str]) -> None:
    """Run a job over so many rows."""
    env = import_module(f"{package}.datastream").StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    tables = import_module(f"{package}.table").StreamTableEnvironment.create(env)
    for name, value in options.items():
        tables.get_config().set(name, value)
    tables.create_temporary_function("increased", functions(package)[kind])
    source = {"connector": "datagen", "rows-per-second": "1000000000"}
    source |= {"fields.n.kind": "sequence", "fields.n.start": "1", "fields.n.end": str(rows)}
    shown = ", ".join(f"'{name}' = '{value}'" for name, value in source.items())
    tables.execute_sql(f"CREATE TABLE numbers (n BIGINT) WITH ({shown})")
    tables.execute_sql("CREATE TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole')")
    tables.execute_sql("INSERT INTO nothing SELECT increased(n) FROM numbers").wait()


def main() -> None:
    package, kind, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    options = dict(one.split("=", 1) for one in sys.argv[4:])
    for count in (rows // 4, rows // 4, rows):
        start = time.perf_counter()
        run(package, kind, count, options)
        print(json.dumps({"rows": count, "wall_s": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
