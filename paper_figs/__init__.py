"""Figures and tables, one small file each.

A figure reads saved result tables (and the paper's own numbers from `instances.paper`); it never solves or
simulates. Imports `eaco_opt` and `instances.paper`.

:func:`render` draws a figure of :data:`FIGURES` as vector PDF (Type 42 fonts) and PNG, with the numbers in it
as CSV beside them. The same tables give the same bytes. A figure is a function ``draw(folder) -> Drawing``
with a line here, or in the entry-point group ``eaco_opt.figures``.
"""

from __future__ import annotations

from eaco_opt.registry import Registry

from .drawing import Drawing, render

FIGURES = Registry("figure", "eaco_opt.figures")
FIGURES.register("energy_runtime", "paper_figs.energy_runtime:draw")
FIGURES.register("active_nodes", "paper_figs.active_nodes:draw")
FIGURES.register("gantt", "paper_figs.gantt:draw")
FIGURES.register("anytime", "paper_figs.anytime:draw")
FIGURES.register("frontier", "paper_figs.frontier:draw")
FIGURES.register("workload", "paper_figs.workload:draw")
FIGURES.register("calibration", "paper_figs.calibration:draw")

__all__ = ["FIGURES", "Drawing", "render"]
