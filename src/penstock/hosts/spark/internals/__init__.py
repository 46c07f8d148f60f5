"""The parts of Spark and PySpark that penstock uses although they are no public interface.

Everything of that kind is in this package, and nowhere else: `assumptions.py` lists what is taken for granted, what
breaks if it no longer holds, and each entry has a test of its own. `version.py` is the check at the door. What depends
on a running JVM takes the session as an argument; what runs in a worker imports PySpark only when it is called.
"""
