"""Keyed state as a struct of arrays: a slot for each key, and an array by slot for each part of its value."""
