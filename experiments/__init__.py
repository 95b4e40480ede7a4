"""Studies and the command line: the one place that ties all floors together.

`cli` is the program `eaco-opt`; its commands are files in `commands`. Imports every other folder; none
imports this one.
"""
