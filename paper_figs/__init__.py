"""Figures and tables, one small file each.

A figure reads saved result tables (and the paper's own numbers from `instances.paper`); it never solves or
simulates. Imports `eaco_opt` and `instances.paper`.
"""
