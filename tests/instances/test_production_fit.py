"""Family `production`: the stored figures are the fit to the Philly trace, and draws look like it."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from eaco_opt.errors import DomainError, TraceError
from instances import generate
from instances.generators import production as p
from instances.readers.philly_csv import PhillyCsv
from instances.readers.text import read_text


def philly(data_dir: Path) -> Path:
    """Path of the trace."""
    return data_dir / "philly" / "philly_jobs.csv"


def test_stored_figures_are_the_fit(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Refitting by `python -m instances.generators.production FILE` gives the file that ships: counts and
    quantiles exactly, rates and correlations to three digits.
    """
    assert p.main([str(philly(data_dir))]) == 0
    fresh, stored = json.loads(capsys.readouterr().out), json.loads(p.stored_fit().to_json())
    assert list(fresh) == list(stored)
    rounded = ("hour_of_day", "day_of_week", "noise_sd", "noise_correlation", "duration_correlation")
    for field, value in stored.items():
        if field in rounded:
            assert np.allclose(fresh[field], value, atol=2e-3), field
        else:
            assert fresh[field] == value, field


def test_the_command_wants_one_file() -> None:
    """Without a file the command says how it is used and ends with exit code 2."""
    assert p.main([]) == 2


def test_stored_figures_are_sound() -> None:
    """Shares, quantiles and rates have the properties that drawing needs."""
    fit = p.stored_fit()
    assert sum(fit.gpu_jobs) == 82247
    assert len(fit.durations_s) == len(p.GPU_CLASSES)
    for quantiles in fit.durations_s:
        assert len(quantiles) == len(p.DURATION_P)
        assert list(quantiles) == sorted(quantiles)
        assert quantiles[0] > 0
    for sizes, at_most in zip(fit.group_size, fit.group_size_p, strict=True):
        assert list(sizes) == sorted(set(sizes))
        assert list(at_most) == sorted(at_most)
        assert at_most[-1] == 1.0
    assert np.mean(fit.hour_of_day) == pytest.approx(1.0, abs=1e-3)
    assert np.mean(fit.day_of_week) == pytest.approx(1.0, abs=1e-3)
    assert 0 < fit.noise_correlation < 1
    assert 0 < fit.duration_correlation < 1


def test_durations_have_the_traces_distribution(data_dir: Path) -> None:
    """By class of GPU count, drawn running times lie within 4 % of the trace's distribution function."""
    trace = PhillyCsv().read(read_text(philly(data_dir)))
    fit, u = p.stored_fit(), (np.arange(20000) + 0.5) / 20000
    classes = p.gpu_class(trace.gpus)
    for c, gpus in enumerate((1, 2, 4, 8, 32)):
        drawn = p.draw_durations_s(fit, np.full(len(u), gpus), u)
        real = np.sort(trace.duration_s[classes == c])
        at = np.searchsorted(real, np.sort(drawn), side="right") / len(real)
        # Half-way, so that ties (whole seconds in the trace) do not count as distance.
        below = np.searchsorted(real, np.sort(drawn), side="left") / len(real)
        distance = np.maximum(np.maximum(below - u, u - at), 0.0).max()
        assert distance < 0.04, (gpus, distance)


def test_groups_have_the_traces_mean_size() -> None:
    """`mean_group_size` is the mean of what is drawn, also when sizes are cut."""
    fit, u = p.stored_fit(), (np.arange(400000) + 0.5) / 400000
    for sort, gpus in ((0, 1), (1, 8)):
        sizes = p.draw_group_sizes(fit, np.full(len(u), gpus), u)
        assert sizes.min() == 1
        for cap in (1, 2, 10, 10**4):
            drawn = np.minimum(sizes, cap).mean()
            assert p.mean_group_size(fit, sort, cap) == pytest.approx(drawn, rel=2e-3)


def test_gpu_counts_have_the_traces_shares() -> None:
    """Over many lists the shares of jobs by GPU count are the trace's, for short lists and long ones."""
    fit = p.stored_fit()
    share = dict(zip(fit.gpu_counts, np.array(fit.gpu_jobs) / 82247, strict=True))
    for jobs, lists in ((60, 150), (2000, 8)):
        drawn: Counter[int] = Counter()
        for seed in range(lists):
            drawn.update(j.gpus for j in generate("production", jobs=jobs, nodes=16, seed=seed).jobs)
        total = sum(drawn.values())
        # Groups make draws fewer than jobs: allow a third of the share, and 0.003 of all.
        for gpus in (1, 2, 4, 8):
            assert drawn[gpus] / total == pytest.approx(share[gpus], rel=0.33, abs=0.003), (jobs, gpus)


def test_rate_has_day_and_week() -> None:
    """Without noise the arrival rate is hour of day times day of week, from Monday 00:00."""
    fit = p.stored_fit()
    steps = np.diff(p.cumulative_rate(fit, 14 * 24, np.zeros(14 * 24))).reshape(2, 7, 24)
    assert np.allclose(steps, np.outer(fit.day_of_week, fit.hour_of_day))


def test_noise_is_stationary_with_the_fitted_correlation() -> None:
    """The log rate's noise has the fitted standard deviation and correlation from hour to hour."""
    fit = p.stored_fit()
    normals = np.random.Generator(np.random.PCG64(1)).standard_normal(50000)
    rate = np.diff(p.cumulative_rate(fit, len(normals), normals))
    clock = np.arange(len(normals))
    noise = np.log(rate / np.array(fit.hour_of_day)[clock % 24] / np.array(fit.day_of_week)[clock // 24 % 7])
    assert noise.std() == pytest.approx(fit.noise_sd, rel=0.03)
    assert np.corrcoef(noise[:-1], noise[1:])[0, 1] == pytest.approx(fit.noise_correlation, abs=0.02)


def test_arrivals_are_bursty() -> None:
    """Gaps between arrivals vary far more than in a Poisson process, as they do in the trace."""
    jobs = generate("production", jobs=4000, nodes=64, seed=2).jobs
    gaps = np.diff([j.release_s for j in jobs])
    assert gaps.std() / gaps.mean() > 1.8  # 1 for a Poisson process
    assert (gaps <= p.GROUP_GAP_S).mean() > 0.4


def test_jobs_of_a_group_resemble_each_other() -> None:
    """Submissions seconds apart share model and GPU count, and mostly their order of magnitude."""
    jobs = generate("production", jobs=3000, nodes=64, load=0.05, seed=3).jobs
    near = [(a, b) for a, b in itertools.pairwise(jobs) if b.release_s - a.release_s <= 10.0]
    assert len(near) > 300
    same = [(a, b) for a, b in near if (a.profile, a.gpus) == (b.profile, b.gpus)]
    assert len(same) / len(near) > 0.9
    logs = np.log([[a.epochs, b.epochs] for a, b in same])
    assert np.corrcoef(logs[:, 0], logs[:, 1])[0, 1] > 0.6


def test_the_load_is_as_asked() -> None:
    """Exclusive work over GPUs times the arrival window is the load; the window ends with the last groups."""
    instance = generate("production", jobs=5000, nodes=64, load=0.7, seed=1)
    tau = {q.name: q.epoch_time_s("V100", 1) or math.nan for q in instance.profiles}
    work = math.fsum(j.gpus * j.epochs * tau[j.profile] for j in instance.jobs)
    window = work / (512 * 0.7)
    assert 0.95 * window < instance.jobs[-1].release_s < window + 1000.0


def test_fit_needs_a_trace(tmp_path: Path) -> None:
    """A file of another format, or of a few rows, is refused in words."""
    other = tmp_path / "x.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(TraceError, match="expected a header with the columns timestamp"):
        p.fit_production(other)
    short = tmp_path / "y.csv"
    short.write_text("timestamp,duration,num_gpus\n2017-10-09 07:01:55,66,1\n")
    with pytest.raises(DomainError, match="expected at least 1000 readable rows, got 1"):
        p.fit_production(short)
