"""The hosts of tasks and job masters: Spark's, and the simulator's, which replays faults. What they log and trace."""
