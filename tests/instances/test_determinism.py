"""The same call gives the same bytes, whatever the hash seed and the time zone of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import hashlib, sys
from eaco_opt.io import instance_digest, instance_to_json
from instances import GENERATORS, READERS, ImportOptions, builtin_instance, generate
from instances.readers import import_text
from instances.readers.text import TraceText

def say(instance):
    text = instance_to_json(instance)
    data = text if isinstance(text, bytes) else text.encode()
    print(hashlib.sha256(data).hexdigest(), instance_digest(instance))

say(builtin_instance())
for family in GENERATORS:
    more = {} if family == "adversarial" else {"mix": {"VGG-16": 1, "AlexNet": 2}}
    say(generate(family, jobs=40, nodes=10, seed=11, **more))
rows = ["timestamp,duration,num_gpus,gpu_time,cluster"]
times = [(h, m) for h in range(4) for m in range(0, 60, 7)]
rows += [f"2017-11-05 0{h}:{m:02d}:00,{100 + 7 * m},{1 + m % 4},,vc{m % 3}" for h, m in times]
philly = TraceText.of("\\n".join(rows))
window = {"time_from": "2017-11-05 01:00", "time_to": "2017-11-05 03:30"}
for mapping in ("native", "paper-cnn"):
    options = ImportOptions(nodes=2, mapping=mapping, seed=3, **window)
    say(import_text("philly-csv", READERS.get("philly-csv"), philly, options).instance)
table, model = sys.argv[1], "LM (batch size 5)"
lines = [f"{m}\\tc\\t-n\\t1\\t{1000 * k}\\t{k}.5\\t1" for k in range(1, 9) for m in (model, "A3C")]
options = ImportOptions(nodes=2, throughputs=table, seed=3)
say(import_text("gavel", READERS.get("gavel"), TraceText.of("\\n".join(lines)), options).instance)
"""

TABLE = """\
model,gpus,partner_model,partner_gpus,steps_per_s,partner_steps_per_s
LM (batch size 5),1,,,3,
A3C,1,,,7,
A3C,1,LM (batch size 5),1,6,2
"""


def run(tmp_path: Path, hash_seed: str, time_zone: str) -> str:
    """What the program prints under a hash seed and a time zone."""
    table = tmp_path / "t.csv"
    table.write_text(TABLE)
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": time_zone, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(table)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_bytes_depend_on_neither_hash_seed_nor_time_zone(tmp_path: Path) -> None:
    """Families, both readers and both mappings: equal text and digests in three processes."""
    first = run(tmp_path, "0", "UTC")
    assert (
        len(set(first.split())) == 26
    )  # thirteen instances, a hash of bytes and a digest each, all different
    assert run(tmp_path, "1", "Asia/Kolkata") == first
    assert run(tmp_path, "2", "America/New_York") == first
