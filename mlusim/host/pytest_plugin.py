"""A pytest plugin that verifies kernels in a test suite.

  def test_my_kernel(verify_kernel):
      verify_kernel(my_kernel, x, Output.like(x), reference=x + 1)

The fixture `verify_kernel` has the arguments of `mlusim.verify`, returns its report, and fails the test with the text
of the report if it has errors. `--mlusim-check` verifies every mlusim operator called in a test, `--mlusim-devices`
everything that runs on a `Device` created by the test. A test whose kernels write outputs more than once on purpose is
marked `@pytest.mark.mlusim(rewrites=("out",))`. Tracebacks of mlusim's errors show the lines of the test and of
the kernel, not those between them; `python -X dev -m pytest --full-trace` shows all.
pytest loads the plugin automatically if mlusim is installed; otherwise use `-p mlusim.host.pytest_plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mlusim.verifier.report import Report

# Arguments of the marker.
_MARKED = ("rewrites", "partial", "verify")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --mlusim-check, --mlusim-devices and --mlusim-hints."""
    group = parser.getgroup("mlusim", "verification of kernels on the simulated board")
    group.addoption(
        "--mlusim-check", action="store_true", default=False, help="verify every operator of mlusim that a test calls"
    )
    group.addoption(
        "--mlusim-devices",
        action="store_true",
        default=False,
        help="verify everything that runs on a Device that a test makes",
    )
    group.addoption(
        "--mlusim-hints", action="store_true", default=False, help="fail on hints too: a needless sync, unused memory"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `mlusim`."""
    config.addinivalue_line(
        "markers",
        "mlusim(rewrites=(), partial=(), verify=True): for --mlusim-devices: outputs that are intentionally written "
        "more than once, or in part; verify=False: do not verify the devices of this test",
    )


@pytest.fixture
def verify_kernel(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`mlusim.verify`, failing the test if the report has errors."""
    from mlusim.errors import MlusimError
    from mlusim.host.verify import verify

    strict = bool(request.config.getoption("--mlusim-hints"))

    def run(kernel: Callable[..., Any], *arguments: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        failure = ""
        try:
            report = verify(kernel, *arguments, **options)
        except MlusimError as error:
            failure = f"verify_kernel: {type(error).__name__}: {error}"
        if failure:
            # Outside the handler: inside it, pytest would show both errors.
            pytest.fail(failure, pytrace=False)
        fail_on(report, strict=strict)
        return report

    return run


def fail_on(report: Report, *, strict: bool) -> None:
    """Fail the test if a report has errors or, if `strict`, hints; the first line names their kinds."""
    __tracebackhide__ = True
    failures = report.findings if strict else report.errors
    if failures:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in failures))
        pytest.fail(f"{kinds}: {report.text()}", pytrace=False)


@pytest.fixture(autouse=True)
def _mlusim_check(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--mlusim-check"):
        yield
        return
    from mlusim.verifier.check_by_default import checked

    with checked():
        yield


def _marker_arguments(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's marker `mlusim`; a test with wrong ones fails."""
    marker = item.get_closest_marker("mlusim")
    if marker is None:
        return {}
    from mlusim.errors import InputError
    from mlusim.spelling import nearest
    from mlusim.verifier.check import check_names

    arguments = dict(marker.kwargs)
    failure = ""
    for name in (*map(repr, marker.args), *arguments):
        if name not in _MARKED and not failure:
            choice = f"choose {', '.join(_MARKED[:-1])} or {_MARKED[-1]}"
            failure = f"has no argument {name}: {nearest(name, _MARKED)}{choice}"
    try:
        check_names(rewrites=arguments.get("rewrites", ()), partial=arguments.get("partial", ()))
    except InputError as error:
        failure = failure or str(error)
    if failure:
        pytest.fail(f"@pytest.mark.mlusim {failure}", pytrace=False)
    return arguments


def _is_explained(raised: pytest.ExceptionInfo[BaseException]) -> bool:
    from mlusim.errors import MlusimError

    return isinstance(raised.value, MlusimError)


def _hide_internals(error: BaseException | None) -> None:
    """Hide the frames of mlusim and its helpers between a test and its kernel, whose errors explain themselves.

    pytest reads `__tracebackhide__` among the globals of a frame, too. `--full-trace` shows them.
    """
    from mlusim.cores.tasks.source_line import INTERNAL
    from mlusim.source_code import package_of

    # An exception may be its own cause.
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        trace = error.__traceback__
        while trace is not None:
            if package_of(trace.tb_frame) in INTERNAL:
                trace.tb_frame.f_globals["__tracebackhide__"] = _is_explained
            trace = trace.tb_next
        error = error.__cause__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """With --mlusim-devices, verify the devices of a test that passes; shorten the traceback of one that fails."""
    try:
        return (yield from _verified_call(item))
    except Exception as error:
        _hide_internals(error)
        raise


def _verified_call(item: pytest.Item) -> Generator[None, Any, Any]:
    marker_arguments = _marker_arguments(item)
    if not item.config.getoption("--mlusim-devices") or not marker_arguments.pop("verify", True):
        return (yield)
    from mlusim.verifier.check_by_default import watched

    with watched() as devices:
        outcome = yield
    for device in devices:
        if device.log.launches and not device.stopped:
            fail_on(device.verify(**marker_arguments), strict=bool(item.config.getoption("--mlusim-hints")))
    return outcome
