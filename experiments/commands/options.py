"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from eaco_opt.instance import Instance

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="Leave out notes and progress.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace output files that exist.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of whatever is drawn.")]
AlphaOption = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        min=0.0,
        max=1.0,
        metavar="SHARE",
        help="Weight of energy against average time per epoch, 0 to 1; the instance's own without it.",
    ),
]
InstanceArgument = Annotated[
    Path, typer.Argument(metavar="INSTANCE", help="Instance file (JSON), or library:NAME.")
]
ClusterOption = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="Cluster file (JSON) instead of --nodes.")
]
NodesOption = Annotated[int | None, typer.Option("--nodes", min=1, metavar="N", help="Number of V100 nodes.")]
GpusPerNodeOption = Annotated[
    int | None, typer.Option("--gpus-per-node", min=1, metavar="G", help="GPUs of a node (8 without it).")
]
UThresholdOption = Annotated[
    float | None, typer.Option("--u-threshold", min=0.0, metavar="U", help="Largest GPU load (0.9).")
]
MemThresholdOption = Annotated[
    float | None,
    typer.Option("--mem-threshold", min=0.0, max=1.0, metavar="M", help="Largest share of GPU memory (0.9)."),
]
MaxShareOption = Annotated[
    int | None, typer.Option("--max-share", min=1, max=8, metavar="K", help="Most jobs on a GPU (4).")
]
RuleOption = Annotated[
    str | None,
    typer.Option(
        "--rule", metavar="resulting|existing", help="Admission rule (resulting): docs/model.md section 1."
    ),
]

LIBRARY = "library:"
"""What an instance argument begins with if it names an instance of the benchmark library."""

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|min|h|d|)\s*")


def seconds(text: str) -> float:
    """Return a duration [s] from text such as ``90s``, ``15min``, ``1h``, ``2d``; a bare number is seconds.

    Raises
    ------
    typer.BadParameter
        The text is no duration.
    """
    match = _DURATION.fullmatch(str(text))
    value = float(match[1]) * _UNITS[match[2]] if match else math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"expected a duration such as 90s, 15min, 1h or 2d, got {text!r}")
    return value


def grid(text: str) -> float | str | None:
    """Return a slot length [s] above 0, ``"auto"``, or ``None`` for ``none``."""
    word = str(text).strip().lower()
    if word in ("auto", "none"):
        return None if word == "none" else "auto"
    try:
        value = seconds(text)
    except typer.BadParameter:
        value = 0.0
    if value <= 0.0:
        raise typer.BadParameter(f"expected a slot length such as 5min, auto or none, got {text!r}")
    return value


TimeLimitOption = Annotated[
    str | None,
    typer.Option(
        "--time-limit", metavar="DURATION", help="Wall-clock limit of each method, e.g. 90s, 15min, 1h."
    ),
]
GridOption = Annotated[
    str | None,
    typer.Option(
        "--grid", metavar="STEP|auto|none", help="Slot length of grid physics; continuous time without it."
    ),
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="METHOD.KEY=VALUE", help="Option of a method; may be given several times."
    ),
]
ScheduleOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--schedule", metavar="FILE", help="Schedule of your own (JSON, or CSV of segments): one more row."
    ),
]
HistoryOption = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="PREDICTOR|FILE",
        help="Slowdowns that policies believe in, instead of the truth: PREDICTOR or PREDICTOR:TABLE (see "
        "`eaco-opt predictors list`), or those of an instance file.",
    ),
]
TruthOption = Annotated[
    str | None,
    typer.Option(
        "--truth",
        metavar="PREDICTOR",
        help="True slowdowns from a predictor: PREDICTOR or PREDICTOR:TABLE, a measured table to learn from.",
    ),
]


def value_of(text: str) -> Any:
    """Return the value that an option's text means: true, false, none, a number, or the text itself."""
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def method_options(texts: list[str] | None, default: str | None = None) -> dict[str, dict[str, Any]]:
    """Return {method: {key: value}} of texts such as ``eaco.rule=existing``.

    Parameters
    ----------
    texts
        As given.
    default
        Method that a key without one belongs to; ``None`` if each key needs one.

    Raises
    ------
    typer.BadParameter
        A text has another form, or names a key twice.
    """
    out: dict[str, dict[str, Any]] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        method, dot, key = name.rpartition(".")
        if not dot and default is not None:
            method = default
        if not equals or not key or not method:
            raise typer.BadParameter(f"--option: expected METHOD.KEY=VALUE, got {text!r}")
        if key in out.setdefault(method, {}):
            raise typer.BadParameter(f"--option: {method}.{key} is given twice; keep one")
        out[method][key] = value_of(value)
    return out


def limits_of(u: float | None, mem: float | None, share: int | None, rule: str | None) -> Any:
    """Return limits with the given values, the defaults for the others."""
    from eaco_opt.limits import Limits

    given = {"u_threshold": u, "mem_threshold": mem, "max_share": share, "rule": rule}
    return Limits(**{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


def objective_of(alpha: float | None) -> Any:
    """Return the default objective with the given weight of energy."""
    from eaco_opt.limits import Objective

    return Objective() if alpha is None else Objective(alpha=alpha)


def cluster_of(path: Path | None) -> Any:
    """Return the cluster of a file, ``None`` without one."""
    if path is None:
        return None
    from eaco_opt.io import read_cluster

    return read_cluster(path)


def history_of(text: str | None, problem: Instance) -> Any:
    """Return the slowdowns that a predictor or an instance file names, ``None`` without a text."""
    if text is None:
        return None
    from instances.predictors import named_interference

    found = named_interference(text, problem.demands())
    return read(Path(text)).truth if found is None else found[0]


def read(path: Path) -> Instance:
    """Return the instance of a file, or of the benchmark library (``library:NAME``)."""
    if str(path).startswith(LIBRARY):
        from instances.library import library_instance

        return library_instance(bare(path))
    from eaco_opt.io import read_instance

    return read_instance(path)


def bare(name: str | Path) -> str:
    """Return the name of a library instance, written with or without ``library:``."""
    return str(name).removeprefix(LIBRARY)


def label(path: Path) -> str:
    """Return what tables call the instance or schedule of a file: its name without endings."""
    if str(path).startswith(LIBRARY):
        return bare(path)
    return path.name.split(".")[0] or path.name
