"""Family ``tight-deadlines``: mixed sizes with hardly any room between running time and deadline."""

from __future__ import annotations

from eaco_opt.instance import Instance

from .common import UNIFORM_RELEASES, Request, Traits, assemble, mixed_sizes, uniform_releases_s, with_traits

SLACK = (1.02, 1.3)


@with_traits(Traits(slack=SLACK))
def tight_deadlines(request: Request) -> Instance:
    """Jobs of family mixed whose deadlines leave 2 to 30 % of the running time, and nothing else.

    The deadline is release + slack * epochs * epoch time, without the factor 1.1 and the hour of the other
    families. The paper's pairs slow each other down by a few to 60 %, so that many may not meet at all, and
    the others must meet at the right time.
    """
    models, epochs = request.models(), request.whole_epochs()
    gpus, workload, sizes = mixed_sizes(request)
    return assemble(
        request,
        workload=workload,
        models=models,
        gpus=gpus,
        epochs=epochs,
        release_s=uniform_releases_s(request, workload, models, gpus, epochs),
        assumptions={"assumption.gpus": sizes, "assumption.releases": UNIFORM_RELEASES},
        deadline_factor=1.0,
        deadline_extra_s=0.0,
    )
