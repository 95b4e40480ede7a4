"""How a model is solved, and what stands behind it.

Here is :func:`solvers.bruteforce.bruteforce`: the proved optimum of tiny instances, from the physics alone.

What belongs here too, and is not here yet: one `solve(instance, method, ...)`, the adapters of the back ends
(HiGHS, CBC, SCIP, CP-SAT, commercial ones where licensed), column generation, neighbourhood search, and the
`mpc` policy, which solves as it goes. Each is one file and one registry line.

Imports `eaco_opt` and `formulations`.
"""
