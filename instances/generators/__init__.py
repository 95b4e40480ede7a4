"""Instance families, one file each: seeded, the same bytes for the same call.

:func:`generate` is the public face. A family is a function ``family(request) -> Instance`` with a line in
:data:`GENERATORS`; what all families share (options, releases, deadlines, metadata) is in
:mod:`instances.generators.common`. docs/instances.md gives the distributions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from eaco_opt.cluster import Cluster
from eaco_opt.errors import DomainError
from eaco_opt.impossible import impossible_jobs
from eaco_opt.instance import Instance
from eaco_opt.limits import Limits, Objective
from eaco_opt.profile import Profile, checked_profiles
from eaco_opt.profile_set import ProfileSet
from eaco_opt.registry import Registry

from ..clusters import resolve_cluster
from .common import DEFAULT_LOAD, DEFAULT_SLACK, Request, Traits, checked_params, traits_of

GENERATORS = Registry("generator family", "eaco_opt.generators")
GENERATORS.register("production", "instances.generators.production:production")
GENERATORS.register("whole-node", "instances.generators.whole_node:whole_node")
GENERATORS.register("mixed", "instances.generators.mixed:mixed")
GENERATORS.register("burst", "instances.generators.burst:burst")
GENERATORS.register("diurnal", "instances.generators.diurnal:diurnal")
GENERATORS.register("heavy-tail", "instances.generators.heavy_tail:heavy_tail")
GENERATORS.register("tight-deadlines", "instances.generators.tight_deadlines:tight_deadlines")
GENERATORS.register("symmetric", "instances.generators.symmetric:symmetric")
GENERATORS.register("adversarial", "instances.generators.adversarial:adversarial")

__all__ = ["DEFAULT_LOAD", "DEFAULT_SLACK", "GENERATORS", "Request", "Traits", "family_traits", "generate"]


def generate(
    family: str,
    *,
    jobs: int,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    cluster: Cluster | None = None,
    load: float = DEFAULT_LOAD,
    slack: tuple[float, float] | None = None,
    epochs: tuple[int, int] | None = None,
    mix: Mapping[str, float] | None = None,
    limits: Limits | None = None,
    objective: Objective | None = None,
    seed: int = 0,
    profiles: Iterable[Profile] | ProfileSet | None = None,
    params: Mapping[str, float] | None = None,
) -> Instance:
    """Return an instance of a family; the same arguments give the same bytes.

    Parameters
    ----------
    family
        Name in :data:`GENERATORS`.
    jobs
        Number of jobs, J >= 1; they are called ``j0``, ``j1``, ... in order of release.
    nodes, gpus_per_node
        Number of V100 nodes and GPUs of each (8 by default).
    cluster
        A cluster instead; its GPUs must be V100, the only type that the four models have epoch times for,
        unless ``profiles`` are given.
    load
        Offered load: exclusive GPU-hours of all jobs over GPU-hours of the cluster in the time during which
        jobs arrive; above 0.
    slack
        (low, high); the deadline is release + slack * 1.1 * epochs * epoch time + 1 h, slack uniform between,
        1.3 to 2.5 by default. Some families have another rule or default.
    epochs
        (low, high), whole numbers; epochs are uniform between (10 to 90 by default). Family ``production``
        has epochs from its running times, and clips them to this if it is given.
    mix
        Shares of the models by name, e.g. ``{"AlexNet": 2, "VGG-16": 1}``; equal shares by default.
    limits, objective
        Limits and objective of the instance; the defaults of :class:`~eaco_opt.limits.Limits` and
        :class:`~eaco_opt.limits.Objective`.
    seed
        Whole number >= 0.
    profiles
        Profiles to draw the models from instead of the paper's four, e.g. of
        :func:`eaco_opt.io.read_profiles`. Those that ``mix`` does not leave out need an epoch time for every
        GPU count of the family on every GPU type of the cluster that can host it. A
        :class:`~eaco_opt.profile_set.ProfileSet` brings its slowdowns and usage along; with profiles alone no
        set counts as measured and slowdowns are those of the model ``additive``. V100 nodes made here look up
        no measured power.
    params
        Parameters of the family itself, by name; :func:`family_traits` lists them.

    Raises
    ------
    UnknownNameError
        No such family, or no such model in ``mix``; the text lists the known names.
    DomainError
        An argument is out of range; the text says which and what is expected. Or a profile of ``profiles``
        has no epoch time where it needs one, or fits on no GPU of the cluster.
    """
    maker: Callable[[Request], Instance] = GENERATORS.get(family)
    owner = f"family {family!r}"
    if limits is not None and not isinstance(limits, Limits):
        raise DomainError(f"{owner}: limits must be a Limits, got {limits!r}")
    if objective is not None and not isinstance(objective, Objective):
        raise DomainError(f"{owner}: objective must be an Objective, got {objective!r}")
    traits = traits_of(maker)
    given = {
        "load": load != DEFAULT_LOAD,
        "slack": slack is not None,
        "epochs": epochs is not None,
        "mix": mix is not None,
        "profiles": profiles is not None,
    }
    for option in traits.fixed:
        if given[option]:
            raise DomainError(f"{owner}: its construction leaves no choice of {option}; leave the option out")
    held = profiles if isinstance(profiles, ProfileSet) else None
    own = profiles.profiles if isinstance(profiles, ProfileSet) else profiles
    request = Request(
        family=family,
        jobs=jobs,
        cluster=resolve_cluster(
            owner, nodes=nodes, gpus_per_node=gpus_per_node, cluster=cluster, lookup=profiles is None
        ),
        load=load,
        slack=traits.slack if slack is None else slack,
        epochs=epochs,
        mix=mix,
        limits=limits or Limits(),
        objective=objective or Objective(),
        seed=seed,
        profiles=None if own is None else checked_profiles(owner, own),
        params=checked_params(owner, traits, params),
    )
    made = maker(request)
    if held is not None:
        made = _with_sharing(made, held)
    if request.profiles is not None:
        _check_own(owner, made, request.profiles)
    return made


def family_traits(family: str) -> Traits:
    """Return what a family states about itself: its parameters, its slack, options that it does not take.

    Raises
    ------
    UnknownNameError
        No such family.
    """
    return traits_of(GENERATORS.get(family))


def _with_sharing(made: Instance, held: ProfileSet) -> Instance:
    """Return an instance with the slowdowns and usage that were measured of its profiles."""
    metadata = dict(made.metadata) | {f"profiles.{key}": text for key, text in held.metadata}
    if held.truth.measured or held.truth.cannot_share or held.usage:
        metadata["assumption.sharing"] = (
            f"{len(held.truth.measured)} sets with measured slowdowns, {len(held.truth.cannot_share)} pairs "
            f"that cannot share, {len(held.usage)} sets with measured load and memory; other slowdowns by "
            f"the model {held.truth.model!r}, other loads and memories as sums over the jobs"
        )
    return dataclasses.replace(made, truth=held.truth, usage=held.usage, metadata=tuple(metadata.items()))


def _check_own(owner: str, made: Instance, profiles: tuple[Profile, ...]) -> None:
    """Refuse an instance that was not drawn from the profiles given, or has jobs that fit nowhere."""
    if made.profiles != profiles:
        raise DomainError(f"{owner}: does not take profiles of the caller's own; leave them out")
    profile_of = {job.name: job.profile for job in made.jobs}
    for job in impossible_jobs(made):
        if not job.deadline_only:
            raise DomainError(
                f"{owner}: profile {profile_of[job.job]!r} can run nowhere in this cluster (job "
                f"{job.job!r}): {job.reason}; take another cluster or other limits, or leave it out with mix"
            )
