"""Composes SQL from what programs write with the Table API."""
