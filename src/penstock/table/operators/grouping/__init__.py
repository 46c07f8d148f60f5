"""GROUP BY without windows: in one phase, in two, and in bundles."""
