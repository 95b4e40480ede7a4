"""How an answer is found: one call, :func:`solve`, and everything behind it.

Map: ``run.py`` is the call; ``base.py`` what all methods have in common, ``catalogue.py`` their list,
``policy_runs.py`` policies as methods, ``verify.py`` the checker's word. Exact methods: ``methods/`` has one
small file each, ``exact.py`` and ``search.py`` what they share, ``memory.py`` the size of models,
``bruteforce.py`` the oracle.

Imports `eaco_opt` and `formulations`.
"""

from .run import solve

__all__ = ["solve"]
