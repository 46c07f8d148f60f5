"""The simulator: jobs in one thread, by a seeded scheduler and a virtual clock, without Spark.

`run_seed` runs the program of a seed and compares it with a plain evaluation; `Simulation` and `BatchedSimulation` run
the job graph of any program.
"""

from penstock.hosts.simulator.batched import BatchedSimulation
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.report import SimulationError, Trace
from penstock.hosts.simulator.runs import Outcome, run_program, run_seed
from penstock.hosts.simulator.simulation import Simulation

__all__ = [
    "BatchedSimulation",
    "Circumstances",
    "Outcome",
    "Simulation",
    "SimulationError",
    "Trace",
    "run_program",
    "run_seed",
]
