"""A digest of the sources of mlusim that determine the figures of a run, for the keys of a sweep's points."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

# Files and folders of the package that determine the figures of a run.
MODEL = (
    *("units.py", "dtypes.py", "hardware", "log.py", "log_tables.py", "records.py", "memory", "cores"),
    *("planning", "kernels", "host", "ops", "bangc", "inputs.py", "quantities.py"),
    *(f"analysis/{name}.py" for name in ("breakdown", "extrapolation", "intervals", "lower_bound")),
    *(
        f"analysis/{name}.py"
        for name in ("distinct_bytes", "log_columns", "log_parts", "metrics", "tensor_bytes", "totals")
    ),
    *("explore/axes.py", "explore/axis_values.py", "explore/kernel_call.py", "explore/point.py"),
)


@cache
def model_hash() -> str:
    """Return the digest of all mlusim sources that determine the figures of a run."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in MODEL:
        source = root / name
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
