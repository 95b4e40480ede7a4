"""Large-neighbourhood search for static schedules (docs/search.md).

Map: ``kernel`` is the compiled core (what a node's plan costs, destroy, repair, acceptance), ``problem``
the arrays it works on, ``driver`` groups, chains, threads and time. :class:`solvers.methods.lns.Lns` is the
method; the re-planner ``mpc`` uses :func:`solvers.lns.driver.search` as well.
"""
