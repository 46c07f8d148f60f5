"""Larger example programs, written with the public API. They are installed together with penstock."""
