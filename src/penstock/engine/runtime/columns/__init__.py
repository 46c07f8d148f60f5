"""Operators and partitioning of columns. Jobs without columns import none of it."""
