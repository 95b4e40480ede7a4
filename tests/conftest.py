"""What all tests share: the folder of real traces, and how hard hypothesis looks.

The default hypothesis profile is small and derandomised, so that the suite says the same twice; the profile
`slow` (environment variable HYPOTHESIS_PROFILE, set by `make test-slow`) looks longer and at random.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "default",
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "slow",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the real traces of other groups, which are not part of the repository.

    EACO_DATA names it; without that it is `../shared/data`, seen from the root. The test is skipped when the
    default is absent; an EACO_DATA that leads nowhere is a mistake and fails.
    """
    named = os.environ.get("EACO_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"EACO_DATA={named} is no folder; expected the folder that holds gavel/, philly/")
    pytest.skip("no trace data at ../shared/data: set EACO_DATA to the folder that holds gavel/, philly/")
