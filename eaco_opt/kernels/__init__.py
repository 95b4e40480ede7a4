"""Compiled inner loops. numba is imported here only, and only when a kernel is first used."""
