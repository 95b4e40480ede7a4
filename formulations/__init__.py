"""The mathematics of the problem: optimisation models, free of any `solve` call.

Three formulations of the static class on the grid (docs/formulations.md), each one file:

- `cpsat`: CP-SAT, exact integers
- `milp`: PuLP, readable beside its equations
- `milp_arrays`: the same model, straight into HiGHS

and what they share: `base` (protocols), `grid`, `windows`, `patterns`, `costs`, `scaling`, `space` (sets
counted, not placed), `placing` (counts to plans and back), `milp_terms`, `linear`, `highs`, `verdict` (what a
solver's answer is worth).

Imports `eaco_opt` only. PuLP, OR-Tools and HiGHS may be imported here and in `solvers`, nowhere else.
"""
