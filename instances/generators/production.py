"""Family ``production``: arrivals, GPU counts and running times like those of the Philly cluster.

The figures in ``instances/data/production.json`` are fitted by :func:`fit_production` to the Philly trace
(msr-fiddle/philly-traces, CC-BY-4.0; Jeon et al., USENIX ATC 2019) as prepared in the CSV form that the
reader ``philly-csv`` reads. What is fitted, and drawn from:

groups
    People submit sweeps: runs of submissions of one virtual cluster with one GPU count, each at most 10 s
    after the one before. Group sizes have the trace's distribution; gaps inside are exponential, cut at 10 s.
arrivals of groups
    A Poisson process whose rate is hour of day * day of week * exp(noise), the noise an autoregressive
    Gaussian sequence over hours. Given their number its points are independent draws from the rate, which is
    how a given number of jobs arrives in the time that the load gives.
GPU counts
    The trace's shares of jobs; one count for a group.
running times
    The trace's quantiles for the class of the GPU count, log-linear between; within a group they correlate
    through a Gaussian copula with the trace's intraclass correlation, which leaves each job's distribution as
    it is.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eaco_opt.errors import DomainError, FormatError
from eaco_opt.instance import Instance

from ..clusters import gpu_types, largest_job
from ..draws import pick
from ..readers.localtime import zone
from ..readers.philly_csv import TIME_ZONE, PhillyCsv
from ..readers.text import read_text
from .common import Request, arrival_window_s, assemble

DATA_FILE = "production.json"
"""Fitted figures, in ``instances/data``."""

GROUP_GAP_S = 10.0
"""Longest gap between two submissions of a group [s]."""

FIRST_DAY, WEEKS = "2017-10-02", 10
"""Whole weeks (from a Monday, local time) that the arrivals are fitted to: before, logging was sparse, and
after them the cluster was out of service for days."""

GPU_CLASSES = (1, 2, 4, 8, 1 << 30)
"""Running times are fitted by class of GPU count: 1, 2, 3 - 4, 5 - 8, more."""

DURATION_P = (0.0, 0.01, 0.05, *(i / 20 for i in range(2, 19)), 0.95, 0.98, 0.99, 0.995, 1.0)
"""Probabilities of the fitted quantiles of the running time."""

SIZE_STEPS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100, 200)
"""Group sizes at which their distribution is fitted, besides the largest."""

GROUP_SHARE = 20
"""No group holds more than one job in so many (but at least one), lest a short list be a single sweep."""

MAX_HOURS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionFit:
    """Fitted figures of the family ``production``.

    Attributes
    ----------
    gpu_counts, gpu_jobs
        GPU counts of the trace and the jobs that asked for them.
    durations_s
        By class of :data:`GPU_CLASSES`, quantiles of the running time at :data:`DURATION_P` [s].
    hour_of_day, day_of_week
        (24,) and (7,) relative rates of group arrivals, local time, mean 1; days from Monday.
    noise_sd, noise_correlation
        Standard deviation of the log rate's noise, and its correlation from one hour to the next.
    group_size, group_size_p
        For groups of one-GPU jobs and of larger ones: sizes, and the share of groups that are at most so
        large.
    gap_s
        Mean gap between submissions of a group before the cut at :data:`GROUP_GAP_S` [s].
    duration_correlation
        Intraclass correlation of the normal scores of running times within groups.
    """

    gpu_counts: tuple[int, ...]
    gpu_jobs: tuple[int, ...]
    durations_s: tuple[tuple[float, ...], ...]
    hour_of_day: tuple[float, ...]
    day_of_week: tuple[float, ...]
    noise_sd: float
    noise_correlation: float
    group_size: tuple[tuple[int, ...], ...]
    group_size_p: tuple[tuple[float, ...], ...]
    gap_s: float
    duration_correlation: float

    def to_json(self) -> str:
        """Return the fit as the text of the data file."""
        out: dict[str, Any] = {
            "source": (
                "fitted by instances.generators.production.fit_production to the Philly trace (Jeon et al., "
                "USENIX ATC 2019; msr-fiddle/philly-traces, CC-BY-4.0)"
            ),
            **{name: getattr(self, name) for name in type(self).__slots__},
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in out.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"


def _significant(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")


def _frozen(value: Any) -> Any:
    """Return a JSON value with its lists as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@cache
def stored_fit() -> ProductionFit:
    """Return the figures that ship with the project."""
    text = resources.files("instances.data").joinpath(DATA_FILE).read_text(encoding="utf-8")
    document = json.loads(text)
    document.pop("source")
    try:
        return ProductionFit(**{key: _frozen(value) for key, value in document.items()})
    except TypeError as error:
        raise FormatError(f"{DATA_FILE}: {error}; restore the shipped file") from None


def gpu_class(gpus: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each GPU count, a position in :data:`GPU_CLASSES`."""
    return np.searchsorted(np.array(GPU_CLASSES), gpus, side="left").astype(np.int64)


def _groups(
    submit_s: NDArray[np.float64], gpus: NDArray[np.int64], vc: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each row's group number, and the gaps inside groups [s]."""
    group = np.empty(len(submit_s), dtype=np.int64)
    gaps: list[NDArray[np.float64]] = []
    made = 0
    rows_of: dict[tuple[str, int], list[int]] = {}
    for i in np.argsort(submit_s, kind="stable").tolist():
        rows_of.setdefault((vc[i] if vc else "", int(gpus[i])), []).append(i)
    for rows in rows_of.values():
        gap = np.diff(submit_s[rows])
        number = made + np.concatenate([[0], np.cumsum(gap > GROUP_GAP_S)]).astype(np.int64)
        group[rows] = number
        gaps.append(gap[gap <= GROUP_GAP_S])
        made = int(number[-1]) + 1
    return group, np.concatenate(gaps)


def _intraclass_correlation(values: NDArray[np.float64], group: NDArray[np.int64]) -> float:
    """Return the intraclass correlation by one-way analysis of variance over groups of two and more."""
    size = np.bincount(group)
    many = size[group] > 1
    _, label = np.unique(group[many], return_inverse=True)
    x, n = values[many], np.bincount(label).astype(np.float64)
    if len(n) < 2:
        raise DomainError("fit of production: expected at least two groups of submissions, got fewer")
    mean = np.bincount(label, weights=x) / n
    total = n.sum()
    between = float((n * (mean - x.mean()) ** 2).sum()) / (len(n) - 1)
    within = float(((x - mean[label]) ** 2).sum()) / (total - len(n))
    typical = (total - float((n**2).sum()) / total) / (len(n) - 1)
    return float((between - within) / (between + (typical - 1.0) * within))


def _rate_fit(
    group_start_s: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], float, float]:
    """Return hour-of-day and day-of-week rates, and the noise's deviation and hourly correlation.

    Rates are means of counts. The noise is what is left of log(count + 1/2); its hourly correlation comes
    from the autocorrelations at 1 and 6 hours, phi = (r6 / r1)**(1/5), and its variance from the one at 1
    hour, var * r1 / phi, which leaves out the scatter of counting.
    """
    local = zone(TIME_ZONE)
    # Local clock hours since the first day: the change of clocks shifts an hour, as it did for the people.
    start = datetime.fromisoformat(FIRST_DAY).replace(tzinfo=UTC).timestamp()
    hours = np.array(
        [
            (datetime.fromtimestamp(t, local).replace(tzinfo=UTC, fold=0).timestamp() - start) // 3600
            for t in group_start_s.tolist()
        ],
        dtype=np.int64,
    )
    length = WEEKS * 7 * 24
    inside = hours[(hours >= 0) & (hours < length)]
    counts = np.bincount(inside, minlength=length).astype(np.float64).reshape(WEEKS, 7, 24)
    if counts.sum() < length:
        raise DomainError(
            f"fit of production: expected submissions all through the {WEEKS} weeks from {FIRST_DAY}, got "
            f"{int(counts.sum())} groups"
        )
    hour = counts.mean(axis=(0, 1)) / counts.mean()
    day = counts.mean(axis=(0, 2)) / counts.mean()
    expected = counts.mean() * day[:, np.newaxis] * hour
    left = (np.log(counts + 0.5) - np.log(expected)).ravel()
    left -= left.mean()

    def correlation(lag: int) -> float:
        return float((left[:-lag] * left[lag:]).mean() / left.var())

    phi = (correlation(6) / correlation(1)) ** 0.2
    return hour, day, math.sqrt(float(left.var()) * correlation(1) / phi), phi


def fit_production(path: str | os.PathLike[str]) -> ProductionFit:
    """Fit the figures of the family to a Philly trace in CSV form.

    ``python -m instances.generators.production FILE`` writes what it returns in the form of the data file.

    Parameters
    ----------
    path
        The trace (columns timestamp, duration, num_gpus, cluster).

    Raises
    ------
    TraceError
        The file is not of the format.
    DomainError
        It holds too little to fit.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    columns = PhillyCsv().read(read_text(path))
    if len(columns.line) < 1000:
        raise DomainError(f"fit of production: expected at least 1000 readable rows, got {len(columns.line)}")
    counts, jobs = np.unique(columns.gpus, return_counts=True)
    classes = gpu_class(columns.gpus)
    score = np.empty(len(classes))
    durations: list[tuple[float, ...]] = []
    for c in range(len(GPU_CLASSES)):
        mine = classes == c
        if not mine.any():
            raise DomainError(f"fit of production: expected jobs of at most {GPU_CLASSES[c]} GPUs, got none")
        values = columns.duration_s[mine]
        durations.append(tuple(_significant(float(x)) for x in np.quantile(values, DURATION_P)))
        score[mine] = ndtri((rankdata(values) - 0.5) / len(values))
    group, gaps = _groups(columns.submit_s, columns.gpus, columns.vc)
    size = np.bincount(group)
    start = np.full(len(size), np.inf)
    np.minimum.at(start, group, columns.submit_s)
    hour, day, sd, phi = _rate_fit(start)
    one_gpu = np.zeros(len(size), dtype=np.bool_)
    one_gpu[group[columns.gpus == 1]] = True
    if one_gpu.all() or not one_gpu.any():
        raise DomainError("fit of production: expected jobs of one GPU and larger ones, got one sort only")
    sizes: list[tuple[int, ...]] = []
    sizes_p: list[tuple[float, ...]] = []
    for mine in (one_gpu, ~one_gpu):
        largest = int(size[mine].max())
        steps = (*(x for x in SIZE_STEPS if x < largest), largest)
        sizes.append(steps)
        sizes_p.append(tuple(round(float((size[mine] <= x).mean()), 5) for x in steps))
    return ProductionFit(
        gpu_counts=tuple(counts.tolist()),
        gpu_jobs=tuple(jobs.tolist()),
        durations_s=tuple(durations),
        hour_of_day=tuple(round(float(x), 3) for x in hour),
        day_of_week=tuple(round(float(x), 3) for x in day),
        noise_sd=round(sd, 3),
        noise_correlation=round(phi, 3),
        group_size=tuple(sizes),
        group_size_p=tuple(sizes_p),
        gap_s=round(float(gaps.mean()), 2),
        duration_correlation=round(_intraclass_correlation(score, group), 3),
    )


def draw_durations_s(
    fit: ProductionFit, gpus: NDArray[np.int64], u: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return running times [s] from uniforms: quantiles by GPU count, log-linear between.

    Parameters
    ----------
    fit
        The figures.
    gpus, u
        (J,) GPU counts and uniforms.
    """
    out = np.empty(len(u))
    classes = gpu_class(gpus)
    for c, quantiles in enumerate(fit.durations_s):
        mine = classes == c
        out[mine] = np.exp(np.interp(u[mine], DURATION_P, np.log(quantiles)))
    return out


def draw_group_sizes(
    fit: ProductionFit, gpus: NDArray[np.int64], u: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return group sizes from uniforms: the fitted distribution, log-linear between its steps.

    Parameters
    ----------
    fit
        The figures.
    gpus, u
        (G,) GPU counts of the groups, and uniforms.
    """
    out = np.empty(len(u), dtype=np.int64)
    for sort, mine in enumerate((gpus == 1, gpus > 1)):
        # Below the first step's share the size is 1; between two it grows by interpolation and is rounded up.
        drawn = np.exp(np.interp(u[mine], fit.group_size_p[sort], np.log(fit.group_size[sort])))
        out[mine] = np.ceil(drawn - 1e-9).astype(np.int64)
    return out


def mean_group_size(fit: ProductionFit, sort: int, largest: int) -> float:
    """Return the mean of min(group size, ``largest``) as :func:`draw_group_sizes` draws it.

    Parameters
    ----------
    fit
        The figures.
    sort
        0 for groups of one-GPU jobs, 1 for larger ones.
    largest
        Sizes count as at most this.
    """
    s = np.arange(1, largest)
    at_most = np.interp(np.log(s), np.log(fit.group_size[sort]), fit.group_size_p[sort])
    return 1.0 + float((1.0 - at_most).sum())


def cumulative_rate(fit: ProductionFit, hours: int, normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (hours + 1,) the integral of the arrival rate from Monday 00:00 to each full hour, any unit.

    Parameters
    ----------
    fit
        The figures.
    hours
        Number of hours.
    normals
        (hours,) independent standard normal numbers that drive the noise.
    """
    phi = fit.noise_correlation
    innovation = math.sqrt(1.0 - phi * phi)
    noise: list[float] = []
    state = 0.0
    for i, z in enumerate(normals.tolist()):
        state = z if i == 0 else phi * state + innovation * z
        noise.append(state)
    clock = np.arange(hours)
    rate = (
        np.array(fit.hour_of_day)[clock % 24]
        * np.array(fit.day_of_week)[clock // 24 % 7]
        * np.exp(fit.noise_sd * np.array(noise))
    )
    return np.concatenate([[0.0], np.cumsum(rate)])


def production(request: Request) -> Instance:
    """Jobs like those of the Philly cluster: sweeps, day and week, GPU counts and running times of the trace.

    Each job is one of the models and has as many epochs as its running time gives, at least 1. A count
    above what one job can have in the cluster is cut to that.
    """
    from scipy.special import ndtr, ndtri

    fit, n = stored_fit(), request.jobs
    largest = largest_job(request.cluster, gpu_types(request.cluster))
    workload = request.workload([min(count, largest) for count in fit.gpu_counts])

    # Groups, until there are enough jobs; every stream has one number for each group or job that could be.
    # A count's share of groups is its share of jobs over the mean size of its groups, cut as they are.
    cap = max(1, n // GROUP_SHARE)
    mean_size = [mean_group_size(fit, int(count > 1), cap) for count in fit.gpu_counts]
    weights = [jobs / mean for jobs, mean in zip(fit.gpu_jobs, mean_size, strict=True)]
    counts = np.array(fit.gpu_counts, dtype=np.int64)[pick(request.uniforms("gpus"), weights)]
    sizes = np.minimum(draw_group_sizes(fit, counts, request.uniforms("group-size")), cap)
    group = np.repeat(np.arange(n), sizes)[:n]
    groups = int(group[-1]) + 1
    first_of_group = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))

    asked = counts[group]
    gpus = np.minimum(asked, largest)
    models = pick(request.uniforms("model"), request.shares())[group]

    # Copula: a score for the group and one for the job, mixed so that the sum is standard normal again.
    rho = fit.duration_correlation
    tiny = 2.0**-54
    shared = ndtri(request.uniforms("duration") + tiny)[group]
    own = ndtri(request.uniforms("duration-in-group") + tiny)
    u = ndtr(math.sqrt(rho) * shared + math.sqrt(1.0 - rho) * own)
    durations = draw_durations_s(fit, asked, u)
    tau = workload.tau_s(models, gpus)
    epochs = np.maximum(1, np.floor(durations / tau + 0.5)).astype(np.int64)
    if request.epochs is not None:
        epochs = np.clip(epochs, *request.epochs)

    window = arrival_window_s(request, tau, gpus, epochs)
    hours = max(1, math.ceil(window / 3600.0))
    if hours > MAX_HOURS:
        raise DomainError(
            f"{request.owner}: at load {request.load:g} the jobs arrive over {window / 3600:.3g} h, expected "
            f"at most {MAX_HOURS} h; raise the load or take fewer jobs"
        )
    cumulative = cumulative_rate(fit, hours, ndtri(request.uniforms("rate", hours) + tiny))
    edges = np.minimum(np.arange(hours + 1) * 3600.0, window)
    if hours * 3600.0 > window:  # the last hour counts for the part of it that is there
        cumulative[-1] = cumulative[-2] + (cumulative[-1] - cumulative[-2]) * (window - edges[-2]) / 3600.0
    arrivals = np.interp(request.uniforms("release", groups) * cumulative[-1], cumulative, edges)
    cut = 1.0 - math.exp(-GROUP_GAP_S / fit.gap_s)
    gaps = -fit.gap_s * np.log1p(-request.uniforms("gap") * cut)
    gaps[first_of_group] = 0.0
    since = np.cumsum(gaps)
    releases = arrivals[group] + since - since[first_of_group][group]
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=releases,
        assumptions={
            "assumption.gpus": (
                "shares of the Philly trace, one count for each group of submissions, cut to what one job "
                f"can have ({largest} GPUs): {int((asked > largest).sum())} job(s) cut"
            ),
            "assumption.releases": (
                "groups of submissions over [0, total exclusive GPU-hours / (GPUs * load)], beginning on a "
                "Monday 00:00, with the Philly trace's hours of day, days of week, burstiness and group "
                f"sizes (no group above {cap} jobs), then shifted so that the first is 0"
            ),
            "assumption.epochs": (
                "running times with the Philly trace's quantiles by GPU count over the model's epoch time, "
                "rounded, at least 1"
                + ("" if request.epochs is None else ", clipped to [{}, {}]".format(*request.epochs))
            ),
        },
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the fit to the Philly trace named on the command line to standard output."""
    import sys

    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        sys.stderr.write("usage: python -m instances.generators.production PHILLY_CSV\n")
        return 2
    sys.stdout.write(fit_production(given[0]).to_json())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
