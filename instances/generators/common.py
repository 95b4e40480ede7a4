"""What all families share: the checked request, releases by load, deadlines, names and metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.instance import Instance
from eaco_opt.job import Job
from eaco_opt.limits import Limits, Objective
from eaco_opt.profile import Profile

from .. import paper
from ..clusters import describe_cluster
from ..draws import between, checked_seed, checked_slack, pick, shares, uniforms, whole
from ..workloads import Workload, own_workload, paper_workload

DEFAULT_LOAD = 1.0
"""Offered load when none is given: as much work as the cluster can do exclusively."""

DEFAULT_SLACK = (1.3, 2.5)
"""Range of the slack where the paper is silent (docs/model.md section 1)."""

DEFAULT_EPOCHS = (10, 90)
"""Range of the epochs of the families ``whole-node`` and ``mixed``."""

DEADLINE_FACTOR = 1.1
DEADLINE_EXTRA_S = 3600.0
"""The deadline is release + slack * 1.1 * epochs * epoch time + 1 h."""

MAX_JOBS = 10_000_000

Maker = Callable[["Request"], Instance]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that one family takes besides the options of all.

    Attributes
    ----------
    name, meaning
        Name for ``params`` and ``--param``, and what it is, with its unit.
    default, low, high
        Value without it, and its range (both ends allowed).
    whole
        Whether it must be a whole number.
    """

    name: str
    meaning: str
    default: float
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a family states about itself.

    Attributes
    ----------
    parameters
        Its own parameters.
    slack
        Range of the slack without the option.
    fixed
        Options that it does not take: it says so if one is given.
    """

    parameters: tuple[Parameter, ...] = ()
    slack: tuple[float, float] = DEFAULT_SLACK
    fixed: tuple[str, ...] = ()


def with_traits(traits: Traits) -> Callable[[Maker], Maker]:
    """Return a decorator that states the traits of a family."""

    def decorate(maker: Maker) -> Maker:
        setattr(maker, "traits", traits)  # noqa: B010 - functions have no declared attributes
        return maker

    return decorate


def traits_of(maker: object) -> Traits:
    """Return the traits of a family; those of a family that states none."""
    found = getattr(maker, "traits", None)
    return found if isinstance(found, Traits) else Traits()


def checked_params(owner: str, traits: Traits, params: Mapping[str, float] | None) -> dict[str, float]:
    """Return all parameters of a family, those that are not given with their defaults.

    Raises
    ------
    DomainError
        A parameter is unknown, no number, or out of its range; the text says what there is.
    """
    known = {p.name: p for p in traits.parameters}
    out = {p.name: p.default for p in traits.parameters}
    for name, value in (params or {}).items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise DomainError(f"{owner}: unknown parameter {name!r}; known are: {names}")
        p = known[name]
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not p.low <= value <= p.high or (p.whole and value != int(value)):
            kind = "a whole number" if p.whole else "a number"
            raise DomainError(f"{owner}: {name} must be {kind} from {p.low:g} to {p.high:g}, got {value!r}")
        out[name] = float(value)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A checked call of :func:`instances.generators.generate`; the attributes are its parameters."""

    family: str
    jobs: int
    cluster: Cluster
    load: float
    slack: tuple[float, float]
    epochs: tuple[int, int] | None
    mix: Mapping[str, float] | None
    limits: Limits
    objective: Objective
    seed: int
    profiles: tuple[Profile, ...] | None = None
    params: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate."""
        owner, put = self.owner, object.__setattr__
        if isinstance(self.jobs, bool) or not isinstance(self.jobs, int) or not 1 <= self.jobs <= MAX_JOBS:
            raise DomainError(f"{owner}: jobs must be a whole number from 1 to {MAX_JOBS}, got {self.jobs!r}")
        if (
            isinstance(self.load, bool)
            or not isinstance(self.load, (int, float))
            or not 0.0 < self.load < math.inf
        ):
            raise DomainError(f"{owner}: load must be a finite number above 0, got {self.load!r}")
        put(self, "load", float(self.load))
        put(self, "slack", checked_slack(owner, self.slack))
        if self.epochs is not None:
            pair = tuple(self.epochs) if isinstance(self.epochs, (tuple, list)) else ()
            if (
                len(pair) != 2
                or any(isinstance(x, bool) or not isinstance(x, int) for x in pair)
                or not 1 <= pair[0] <= pair[1] <= 10**9
            ):
                raise DomainError(
                    f"{owner}: epochs must be two whole numbers with 1 <= low <= high <= 10**9, got "
                    f"{self.epochs!r}"
                )
            put(self, "epochs", (pair[0], pair[1]))
        if self.profiles is not None:
            put(self, "profiles", tuple(sorted(self.profiles, key=lambda p: p.name)))
        self.shares()
        put(self, "seed", checked_seed(owner, self.seed))

    @property
    def owner(self) -> str:
        """What messages call the family."""
        return f"family {self.family!r}"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the models to draw from: the profiles given, in order of name, or the paper's four."""
        return paper.MODELS if self.profiles is None else tuple(p.name for p in self.profiles)

    def shares(self) -> tuple[float, ...]:
        """Return the share of each of :attr:`names`."""
        return shares(self.owner, self.mix, self.names)

    def uniforms(self, stream: str, count: int | None = None) -> NDArray[np.float64]:
        """Return uniforms of one stream, one for each job unless ``count`` says otherwise."""
        return uniforms(self.seed, stream, self.jobs if count is None else count)

    def models(self) -> NDArray[np.int64]:
        """Return (J,) positions in :attr:`names`, drawn with the shares of the mix."""
        return pick(self.uniforms("model"), self.shares())

    def whole_epochs(self) -> NDArray[np.int64]:
        """Return (J,) epochs, uniform whole numbers in the range asked for."""
        low, high = self.epochs or DEFAULT_EPOCHS
        return whole(self.uniforms("epochs"), low, high)

    def workload(self, counts: Collection[int]) -> Workload:
        """Return the models for the cluster; refuses GPUs without epoch times.

        Parameters
        ----------
        counts
            GPU counts that the family's jobs may have in this cluster.
        """
        if self.profiles is None:
            return paper_workload(self.owner, self.cluster)
        drawn = [name for name, share in zip(self.names, self.shares(), strict=True) if share > 0.0]
        return own_workload(self.owner, self.cluster, self.profiles, counts=counts, drawn=drawn)

    def call(self) -> str:
        """Return the call as JSON, for the metadata (limits and objective are in the instance itself)."""
        out = {
            "family": self.family,
            "jobs": self.jobs,
            "cluster": describe_cluster(self.cluster),
            "load": self.load,
            "slack": list(self.slack),
            "epochs": None if self.epochs is None else list(self.epochs),
            "mix": None if self.mix is None else {k: float(x) for k, x in sorted(self.mix.items())},
            "seed": self.seed,
        }
        if self.params:
            out["params"] = dict(sorted(self.params.items()))
        if self.profiles is not None:
            out["profiles"] = list(self.names)
        return json.dumps(out, sort_keys=True)


def arrival_window_s(
    request: Request, epoch_time_s: NDArray[np.float64], gpus: NDArray[np.int64], epochs: NDArray[np.int64]
) -> float:
    """Return the time during which jobs arrive [s]: exclusive GPU-seconds / (GPUs * load).

    Parameters
    ----------
    request
        Gives cluster and load.
    epoch_time_s, gpus, epochs
        (J,) of the jobs.
    """
    work = math.fsum((epoch_time_s * gpus * epochs).tolist())
    return work / (request.cluster.total_gpus() * request.load)


def assemble(
    request: Request,
    *,
    workload: Workload,
    models: NDArray[np.int64],
    gpus: NDArray[np.int64],
    epochs: NDArray[np.int64],
    release_s: NDArray[np.float64],
    assumptions: Mapping[str, str],
    deadline_factor: float = DEADLINE_FACTOR,
    deadline_extra_s: float = DEADLINE_EXTRA_S,
) -> Instance:
    """Return the instance of drawn jobs: sorted by release, the first 0, deadlines drawn, whole ms.

    Parameters
    ----------
    request, workload
        The call and its models.
    models, gpus, epochs
        (J,) position in the names of the workload, GPUs and epochs.
    release_s
        (J,) unshifted releases [s].
    assumptions
        Added to the metadata.
    deadline_factor, deadline_extra_s
        The deadline is release + slack * factor * epochs * epoch time + extra [s].
    """
    tau = workload.tau_s(models, gpus)
    slack = between(request.uniforms("slack"), *request.slack)
    order = np.argsort(release_s, kind="stable")
    shifted = release_s - release_s[order[0]]
    jobs: list[Job] = []
    for place, i in enumerate(order.tolist()):
        release = round(float(shifted[i]), 3)
        allowed = float(slack[i]) * deadline_factor * int(epochs[i]) * float(tau[i]) + deadline_extra_s
        jobs.append(
            Job(
                name=f"j{place}",
                profile=workload.names[int(models[i])],
                gpus=int(gpus[i]),
                epochs=int(epochs[i]),
                release_s=release,
                deadline_s=round(release + allowed, 3),
                submit_index=place,
            )
        )
    return Instance(
        name=f"{request.family}-{request.jobs}x{len(request.cluster.nodes)}-seed{request.seed}",
        jobs=tuple(jobs),
        profiles=workload.profiles,
        cluster=request.cluster,
        usage=workload.usage,
        truth=workload.truth,
        limits=request.limits,
        objective=request.objective,
        metadata=tuple(
            {
                "source": f"generator family {request.family}",
                "generator.call": request.call(),
                "assumption.deadline": (
                    f"release + slack * {deadline_factor:g} * epochs * epoch time + "
                    f"{deadline_extra_s / 3600.0:g} h, slack uniform in "
                    f"[{request.slack[0]:g}, {request.slack[1]:g}]"
                ),
                "assumption.times": "releases and deadlines are rounded to whole milliseconds",
                **workload.assumptions,
                **assumptions,
            }.items()
        ),
    )


GPU_COUNTS = (1, 2, 4, 8)
GPU_CHANCES = (0.4, 0.2, 0.2, 0.2)
"""GPU counts of mixed sizes, and their chances."""


def mixed_sizes(request: Request) -> tuple[NDArray[np.int64], Workload, str]:
    """Return (J,) GPU counts of mixed sizes, the models for them, and what was assumed.

    Where no node is large enough, the count is cut to the GPUs of the largest node, so that every job fits in
    one node of some type.
    """
    used = {n.node_type for n in request.cluster.nodes}
    largest = max(t.gpus for t in request.cluster.node_types if t.name in used)
    drawn = np.array(GPU_COUNTS, dtype=np.int64)[pick(request.uniforms("gpus"), GPU_CHANCES)]
    workload = request.workload([min(count, largest) for count in GPU_COUNTS])
    text = (
        "1, 2, 4 or 8 GPUs with chances 0.4, 0.2, 0.2, 0.2, cut to the GPUs of the largest node "
        f"({largest}): {int((drawn > largest).sum())} job(s) cut"
    )
    return np.minimum(drawn, largest), workload, text


UNIFORM_RELEASES = (
    "uniform over [0, total exclusive GPU-hours / (GPUs * load)], then shifted so that the first is 0"
)
"""Metadata text of the families with uniform releases."""


def uniform_releases_s(
    request: Request,
    workload: Workload,
    models: NDArray[np.int64],
    gpus: NDArray[np.int64],
    epochs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return (J,) releases uniform over the time that the load gives [s]."""
    tau = workload.tau_s(models, gpus)
    return request.uniforms("release") * arrival_window_s(request, tau, gpus, epochs)
