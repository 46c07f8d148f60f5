"""Rows in an order: sorts, top N and de-duplication."""
