"""Functions of the board that return a value, and end without a `return`."""

from __future__ import annotations

from pathlib import Path

import mlusim
from mlusim import Output, bangc

# Each function is on a line of its own. The end of those with a lower-case name is reached.
TEXT = """#include <bang.h>
__mlu_func__ float plain(float x) { x *= 2; }
template <class T> static inline __mlu_func__ T *pointer(T *x) { if (x == nullptr) return x; }
struct S {
  float v;
  __mlu_func__ S(float w) : v(w) {}
  __mlu_func__ ~S() {}
  __mlu_func__ float method() const { if (v > 9) return v; }
  __mlu_func__ float operator()() const { return v; }
};
__mlu_func__ int Switch(int n) { switch (n) { case 0: return 1; default: return 2; } }
__mlu_func__ int Loop(int n) { while (1) { if (n > 3) return n; ++n; } }
__mlu_func__ void Nothing(float *p) { if (p) return; }
template <class T> __mlu_func__ T Either(float *p) { (void)p; }
template <class T> __mlu_func__ typename std::enable_if<sizeof(T) == 4>::type Enabled(T *p) { (void)p; }
__mlu_func__ auto Deduced(float *p) { (void)p; }
__mlu_host__ __mlu_func__ int Host(int n) { if (n) return n; }
__mlu_entry__ void k(float *y) {
  if (__is_mpu() || taskId) return;
  auto unfinished = [](float x) -> float { x += 1; };
  auto finished = [&](float x) -> void { y[0] = x; };
  S s(3);
  Nothing(y), Either<void>(y), Enabled(y), Deduced(y), Host(1), plain(1), pointer(y), s.method(), unfinished(2);
  finished(s() + Switch(2) + Loop(0));
}
"""


def test_the_end_of_a_function_that_returns_a_value_is_a_hint(tmp_path: Path, compiler: str) -> None:
    file = tmp_path / "returns.mlu"
    file.write_text(TEXT)
    report = mlusim.verify(bangc.compile(file, compiler=compiler)["k"], Output(1, "float32"), dim=4, kind="UNION1")
    assert report.ok
    assert report.outputs["y"].tolist() == [9]
    hints = [finding for finding in report.findings if finding.kind == "no-return"]
    names = ["plain", "pointer", "method", "a lambda"]
    assert [hint.title for hint in hints] == [
        f"{name} returns a value, and ends here without a return" for name in names
    ]
    lines = TEXT.splitlines()
    places = [
        lines.index(line) + 1
        for word in ("plain(float", "*pointer(", "method() const", "unfinished =")
        for line in lines
        if word in line
    ]
    assert [site.line for hint in hints for site in hint.sites] == places
