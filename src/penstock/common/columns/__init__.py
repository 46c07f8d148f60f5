"""Columns of Arrow: from records, and to Python values. Code here is imported where columns are used, which is rare."""
