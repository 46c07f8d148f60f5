"""What some jobs need besides: the extras of pyproject.toml, as pip is given them.

The extra and not the package: pip then takes a version that works with this penstock, and all that belongs to it.
"""

from typing import Final

AVRO: Final = "penstock-streams[avro]"
DELTA: Final = "penstock-streams[delta]"
ICEBERG: Final = "penstock-streams[iceberg]"
SQL: Final = "penstock-streams[sql]"
DASHBOARD: Final = "penstock-streams[dashboard]"
ROCKSDB: Final = "penstock-streams[rocksdb]"
S3: Final = "penstock-streams[s3]"
KAFKA: Final = "penstock-streams[kafka]"
PROTOBUF: Final = "penstock-streams[protobuf]"
POSTGRES: Final = "penstock-streams[postgres]"
REDIS: Final = "penstock-streams[redis]"
ZOOKEEPER: Final = "penstock-streams[zookeeper]"
OTEL: Final = "penstock-streams[otel]"
DEMO: Final = "penstock-streams[demo]"
