"""Trace readers, one file each: a trace file of another group becomes an instance.

Every reader reports how many rows it took, repaired and refused, and why.
"""
