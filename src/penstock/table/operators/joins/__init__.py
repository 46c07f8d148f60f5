"""Joins: of changelogs, by time, with versions, lookups and table functions."""
