"""A pytest plugin: kernels verified in a test suite of one's own.

    def test_my_kernel(verify_kernel):
        verify_kernel(my_kernel, x, Output.like(x), reference=x + 1)

The fixture `verify_kernel` takes what `mlusim.verify` takes, gives its report, and fails the test with the text of the
report where it has an error. With `--mlusim-check`, every operator of mlusim that a test calls is verified too.
pytest finds the plugin by itself where mlusim is installed; elsewhere `-p mlusim.host.pytest_plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mlusim.verifier.report import Report


def pytest_addoption(parser: pytest.Parser) -> None:
    """--mlusim-check and --mlusim-hints."""
    group = parser.getgroup("mlusim", "verification of kernels on the simulated board")
    group.addoption(
        "--mlusim-check", action="store_true", default=False, help="verify every operator of mlusim that a test calls"
    )
    group.addoption(
        "--mlusim-hints", action="store_true", default=False, help="verify_kernel fails on hints too: a needless sync"
    )


@pytest.fixture
def verify_kernel(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`mlusim.verify`, which fails the test with the report."""
    from mlusim.host.verify import verify

    strict = bool(request.config.getoption("--mlusim-hints"))

    def run(kernel: Callable[..., Any], *arguments: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        report = verify(kernel, *arguments, **options)
        if not report.ok or (strict and report.hints):
            pytest.fail(report.text(), pytrace=False)
        return report

    return run


@pytest.fixture(autouse=True)
def _mlusim_check(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--mlusim-check"):
        yield
        return
    from mlusim.verifier.switch import checked

    with checked():
        yield
