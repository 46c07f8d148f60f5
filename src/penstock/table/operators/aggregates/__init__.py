"""Aggregate functions over arrays by slot: row by row within a chunk, with retraction, and merged between windows."""
