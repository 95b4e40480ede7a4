"""Where instances come from.

`readers` turn traces of other groups into instances, `generators` make them from a seed, `data` holds the
tables that ship with the project. Imports `eaco_opt` only.
"""
