"""Functions that draw samples: of records, and of keys for ranges."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from penstock.datastream.functions import AggregateFunction, FlatMapFunction, RuntimeContext

KEYS_SAMPLED = 1_000
"""The size of each subtask's sample of keys for ranges."""


class Sample(FlatMapFunction[Any, Any]):
    """Emits a record with a probability. Each subtask draws from its own sequence."""

    def __init__(self, fraction: float, seed: int) -> None:
        self._fraction = fraction
        self._seed = seed

    def open(self, runtime_context: RuntimeContext) -> None:
        """Begin the sequence of this subtask."""
        self._draw = random.Random(f"{self._seed}/{runtime_context.get_index_of_this_subtask()}").random

    def flat_map(self, value: Any) -> Iterator[Any]:
        """Emit the record once, or not."""
        if self._draw() < self._fraction:
            yield value


class SampleWithReplacement(Sample):
    """Emits a record any number of times, by a Poisson distribution: by Knuth's product of random numbers."""

    def flat_map(self, value: Any) -> Iterator[Any]:
        """Emit the record as often as drawn."""
        # In parts of at most 500: the exponential of a greater number would be 0.
        left = self._fraction
        while left > 0:
            part = min(left, 500.0)
            left -= part
            limit, product = math.exp(-part), self._draw()
            while product > limit:
                yield value
                product *= self._draw()


class KeySample(AggregateFunction[Any, list[Any], tuple[int, list[Any]]]):
    """Draws a uniform sample of keys: the accumulator is [number of keys, state of the generator, sample]."""

    shares_slices = False

    def create_accumulator(self) -> list[Any]:
        """Return an empty sample."""
        return [0, 1, []]

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        """Keep the key, perhaps in place of another one. Source: Vitter, algorithm R."""
        count, state, keys = accumulator
        if count < KEYS_SAMPLED:
            keys.append(value)
        else:
            # A generator of its own: its state is a number, and a task that runs twice draws the same.
            state = accumulator[1] = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
            place = (state >> 32) * (count + 1) >> 32
            if place < KEYS_SAMPLED:
                keys[place] = value
        accumulator[0] = count + 1
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[int, list[Any]]:
        """Return the number of keys and the sample."""
        return accumulator[0], accumulator[2]

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        """Take a part of both samples, by the numbers of their keys."""
        count = acc_a[0] + acc_b[0]
        of_a = min(len(acc_a[2]), KEYS_SAMPLED * acc_a[0] // max(1, count))
        return [count, acc_a[1], [*acc_a[2][:of_a], *acc_b[2][: KEYS_SAMPLED - of_a]]]
