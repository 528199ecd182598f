"""How long `import mlusim` takes, against importing what it stands on: NumPy and SimPy.

    python benchmarks/bench_import.py

Each import runs in a fresh interpreter, in turn, so that a noisy machine disturbs all alike; reported are the least
times, less that of an interpreter that imports nothing.
"""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

ROUNDS = 15
BASE = "import numpy, simpy"
CASES = {
    "import numpy, simpy": BASE,
    "import mlusim": "import mlusim",
    "import mlusim, and NumPy and SimPy": f"{BASE}; import mlusim",
    "import mlusim, and every public name": "import mlusim; [getattr(mlusim, name) for name in mlusim.__all__]",
}


def start(code: str) -> float:
    """Seconds that a fresh interpreter takes for `code`."""
    begin = perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return perf_counter() - begin


def main() -> None:
    for code in CASES.values():
        start(code)  # byte code is written, files are cached
    times: dict[str, list[float]] = {name: [] for name in ("nothing", *CASES)}
    for _ in range(ROUNDS):
        times["nothing"].append(start("pass"))
        for name, code in CASES.items():
            times[name].append(start(code))
    nothing = min(times.pop("nothing"))
    base = min(times["import numpy, simpy"]) - nothing
    print(f"{'':40} {'ms':>7} {'ratio':>7}")
    for name, taken in times.items():
        least = min(taken) - nothing
        print(f"{name:40} {1e3 * least:7.1f} {least / base:7.2f}")


if __name__ == "__main__":
    main()
