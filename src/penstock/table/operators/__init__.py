"""The operators of plans, which run in tasks and work on columns."""
