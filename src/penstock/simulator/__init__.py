"""The simulator: jobs in one thread, by a seeded scheduler and a virtual clock, without Spark.

`run_seed` runs the program of a seed and compares it with a plain evaluation; `Simulation` and `BatchedSimulation` run
the job graph of any program.
"""

from penstock.simulator.batched import BatchedSimulation
from penstock.simulator.circumstances import Circumstances
from penstock.simulator.report import SimulationError, Trace
from penstock.simulator.runs import Outcome, run_program, run_seed
from penstock.simulator.simulation import Simulation

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
