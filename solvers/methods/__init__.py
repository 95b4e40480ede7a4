"""Exact methods, one small file each; :data:`solvers.base.METHODS` names them."""
