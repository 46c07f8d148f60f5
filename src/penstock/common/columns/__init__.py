"""Columns of Arrow: from records, and to Python values. Code here is imported where columns are used, which is rare.

The one place where declared types meet Arrow: files, tables, savepoints, DataFrames of Spark and column operators use
it. A type itself has its column (`to_arrow`) and the form of a value in it (`to_internal_type`). A new type also needs
to be found by its column (`declared_types`), to say which other columns have its values (`fitting_types`), and to be
read from these (`typed_values`). `tests/unit/common/columns/test_typed_values.py` goes through all types.
"""
