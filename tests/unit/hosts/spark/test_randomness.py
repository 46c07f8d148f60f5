"""Random numbers in workers: each worker draws numbers of its own."""

from __future__ import annotations

import subprocess
import sys

FORKS = """
import os, random, sys, uuid
import numpy
import penstock.hosts.spark.worker.randomness as randomness

def drawn_in_a_fork():
    reading, writing = os.pipe()
    if os.fork() == 0:
        randomness.reseed()
        of_scikit_learn = numpy.random.mtrand._rand.random_sample()  # what check_random_state(None) returns
        of_numpy = numpy.random.rand(), numpy.random.default_rng().random(), of_scikit_learn
        os.write(writing, repr((*of_numpy, random.random(), uuid.uuid1(), uuid.uuid4())).encode())
        os._exit(0)
    os.wait()
    return eval(os.read(reading, 4096).decode(), {"np": numpy, "UUID": uuid.UUID})

print([len(set(draws)) for draws in zip(*(drawn_in_a_fork() for _ in range(5)))])
"""
NOT_IMPORTED = """
import sys
from penstock.hosts.spark.worker.randomness import reseed

imported = "numpy" in sys.modules
reseed()
print(imported, "numpy" in sys.modules)
"""


def printed(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_forks_draw_different_numbers() -> None:
    """Every subtask would draw the same sample: simulations and models would be wrong, and nothing would say so."""
    assert printed(FORKS) == "[5, 5, 5, 5, 5, 5]"


def test_nothing_is_imported_for_it() -> None:
    """Each worker would import what its program does not use."""
    imported, after = printed(NOT_IMPORTED).split()
    assert imported == after
