"""How a model is solved: one `solve(instance, method, ...)` and what stands behind it.

Nothing is here yet. What belongs here: the adapters of the back ends (HiGHS, CBC, SCIP, CP-SAT, commercial
ones where licensed), column generation, neighbourhood search, and the `mpc` policy, which solves as it goes.
Each is one file and one registry line.

Imports `eaco_opt` and `formulations`.
"""
