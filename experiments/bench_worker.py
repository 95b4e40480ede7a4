"""One simulation in a process of its own: ``python -m experiments.bench_worker``, run by ``eaco-opt bench``.

Reads ``{"policy": name, "source": {...}}`` as JSON from standard input and writes what it measured as JSON to
standard output. A source is ``{"kind": "generate", ...}`` or ``{"kind": "import", ...}`` with the arguments
of :func:`instances.generate` or of :class:`instances.ImportOptions`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from typing import Any

from eaco_opt.instance import Instance
from eaco_opt.policies import make_policy
from eaco_opt.simulator import simulate


def make_instance(source: dict[str, Any]) -> Instance:
    """Return the instance that a source describes."""
    given = dict(source)
    kind = given.pop("kind")
    if kind == "generate":
        from instances import generate

        return generate(given.pop("family"), **given)
    from instances import ImportOptions, import_trace

    return import_trace(given.pop("reader"), given.pop("file"), ImportOptions(**given)).instance


def peak_rss_mib() -> float | None:
    """Return the largest memory this process has held [MiB], ``None`` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024.0 * 1024.0) if sys.platform == "darwin" else peak / 1024.0


def measure(policy: str, source: dict[str, Any]) -> dict[str, Any]:
    """Simulate a policy on an instance and return times, memory and outcome.

    The kernels are compiled on the first hundred jobs before the clock starts; the clock covers the whole
    call of :func:`eaco_opt.simulate`, array view and final evaluation included.

    Parameters
    ----------
    policy
        Registered name.
    source
        What to run it on.
    """
    instance = make_instance(source)
    simulate(dataclasses.replace(instance, jobs=instance.jobs[:100]), make_policy(policy))
    wall, cpu = time.perf_counter(), time.process_time()
    found = simulate(instance, make_policy(policy))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "instance": instance.name,
        "jobs": len(instance.jobs),
        "nodes": len(instance.cluster.nodes),
        "gpus": instance.cluster.total_gpus(),
        "wall_s": wall,
        "cpu_s": cpu,
        "peak_rss_mib": peak_rss_mib(),
        "energy_kwh": found.evaluation.energy_j / 3.6e6,
        "deadline_misses": found.evaluation.deadline_misses,
    }


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    json.dump(measure(request["policy"], request["source"]), sys.stdout)


if __name__ == "__main__":
    main()
