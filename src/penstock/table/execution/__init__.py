"""From a compiled plan to transformations: one file for each kind of node."""
