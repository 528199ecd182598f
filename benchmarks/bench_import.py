"""The time of `import mlusim`, compared with importing its dependencies NumPy and SimPy.

    python benchmarks/bench_import.py

Each import runs in a fresh interpreter. The imports alternate, so that a noisy machine disturbs all of them equally.
Reported are the minimum processor times, minus that of an interpreter that imports nothing.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

ROUNDS = 15
BASE = "import numpy, simpy"
CASES = {
    "import numpy, simpy": BASE,
    "import mlusim": "import mlusim",
    "import mlusim, and NumPy and SimPy": f"{BASE}; import mlusim",
    "import mlusim, and use Device and ops": "import mlusim; mlusim.Device, mlusim.ops",
    "import mlusim, and every public name": "import mlusim; [getattr(mlusim, name) for name in mlusim.__all__]",
}


def start(code: str, environment: dict[str, str]) -> float:
    """Return the seconds that a fresh interpreter takes for `code`."""
    begin = children_s()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return children_s() - begin


def children_s() -> float:
    """Processor seconds, user and system, of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in ("nothing", *CASES)}
    with tempfile.TemporaryDirectory() as cache:
        # As in an installation: bytecode exists, and is not compiled at each start.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        for code in CASES.values():
            start(code, environment)
        for _ in range(ROUNDS):
            times["nothing"].append(start("pass", environment))
            for name, code in CASES.items():
                times[name].append(start(code, environment))
    nothing = min(times.pop("nothing"))
    base = min(times["import numpy, simpy"]) - nothing
    print(f"{'':40} {'ms':>7} {'ratio':>7}")
    for name, taken in times.items():
        least = min(taken) - nothing
        print(f"{name:40} {1e3 * least:7.1f} {least / base:7.2f}")


if __name__ == "__main__":
    main()
