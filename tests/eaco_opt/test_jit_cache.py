"""Machine code is not kept beyond the sources it was compiled from."""

from __future__ import annotations

from pathlib import Path

from eaco_opt.kernels._jit import forget_stale_code


def test_code_of_other_sources_is_deleted(tmp_path: Path) -> None:
    """Code without a stamp, or with the stamp of other sources, goes; code of these sources stays."""
    kept = tmp_path / "__pycache__" / "kernel.f-1.py311.1.nbc"
    kept.parent.mkdir()
    source = tmp_path / "kernel.py"
    source.write_text("a = 1\n")
    kept.write_bytes(b"x")
    forget_stale_code.__wrapped__(tmp_path)
    assert not kept.exists()
    kept.write_bytes(b"x")
    forget_stale_code.__wrapped__(tmp_path)
    assert kept.exists()
    source.write_text("a = 2\n")
    forget_stale_code.__wrapped__(tmp_path)
    assert not kept.exists()


def test_other_files_stay(tmp_path: Path) -> None:
    """Python's own bytecode is left alone."""
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "kernel.py").write_text("a = 1\n")
    bytecode = tmp_path / "__pycache__" / "kernel.cpython-311.pyc"
    bytecode.write_bytes(b"x")
    forget_stale_code.__wrapped__(tmp_path)
    assert bytecode.exists()
