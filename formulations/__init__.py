"""The mathematics of the problem: optimisation models, free of any `solve` call.

Nothing is here yet. What belongs here: the time-indexed mixed-integer model, the CP-SAT model and the
configuration linear programme, each one file and one registry line, and the pieces that they share: the time
grid, the enumeration of co-location patterns, the scaling of coefficients.

Imports `eaco_opt` only. PuLP, OR-Tools and HiGHS may be imported here and in `solvers`, nowhere else.
"""
