"""The parts of Spark and PySpark that penstock uses although their interfaces are not public.

Only this package uses such parts. `assumptions.py` lists the assumptions, with the consequence if one no longer holds;
each has a test of its own. `version.py` checks the version of PySpark. Code that needs a running JVM gets the session
as an argument; code that runs in a worker imports PySpark only when it is called.
"""
