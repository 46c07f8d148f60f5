"""The DataFrame of a part of a program, and the one to compute if a sum overflows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

from penstock.hosts.spark.frames.held_settings import HeldSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OVERFLOW = "ARITHMETIC_OVERFLOW"
_ANSI = "spark.sql.ansi.enabled"
_settings = HeldSettings()


class PartFrame(NamedTuple):
    """A DataFrame. Sums of LONGs are Spark's own, which fail if a part of one overflows.

    `exact`: returns the DataFrame whose sums fail only if they do not fit; None if there is no sum of Spark's.
    """

    frame: DataFrame
    exact: Callable[[], DataFrame] | None = None

    def computed(self, compute: Callable[[DataFrame], None]) -> None:
        """Compute the frame, or the exact one if a part of a sum overflows. Raises what `compute` raises."""
        try:
            compute(self.frame)
        except Exception as error:
            if self.exact is None or _OVERFLOW not in str(error):
                raise
            compute(self.exact())


def checked_sums(session: SparkSession) -> AbstractContextManager[None]:
    """Let sums that a program declares in the block fail if they overflow. They could be null, or wrap."""
    return _settings.held(session, {_ANSI: "true"})
