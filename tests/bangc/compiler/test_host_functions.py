"""Functions without `__mlu_func__` that code for the board calls."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlusim
from mlusim import Output, bangc
from mlusim.bangc.survey import survey
from mlusim.cli import main
from mlusim.errors import CompileError

HEAD = "#include <bang.h>\n#include <type_traits>\n"
ENTRY = "__mlu_entry__ void k(float *y) { if (!__is_mpu() && taskId == 0) y[0] = f(1); }\n"


def of_host(text: str, folder: Path) -> list[tuple[str, int]]:
    file = folder / "called.mlu"
    file.write_text(HEAD + text)
    module = bangc.compile(file, syntax_only=True)
    return [(name, line) for name, (_, line) in module.of_host.items()]


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ("float f(float x) { return x; }\n", 4),
        ("static inline float f(float x) { return x; }\n", 4),
        ("template <class T> T f(T x) { return x; }\n", 4),
        ("__mlu_host__ float f(float x) { return x; }\n", 4),
        ("namespace { float f(float x) { return x; } }\n", 4),
        ("float f(float x);\nfloat f(float x) { return x; }\n", 5),
        ("float f(float x) { return x; }\n__mlu_func__ float g(float x) { return f(x); }\n", 4),
    ],
)
def test_a_function_of_the_host_is_found_at_its_first_call(declared: str, line: int, tmp_path: Path) -> None:
    assert of_host(declared + ENTRY, tmp_path) == [("f", line)]


@pytest.mark.parametrize("call", ["S::f(1)", "T<S>::f(1)", "s.f(1)"])
@pytest.mark.grid(2)
def test_a_method_of_the_host_of_a_templates_parameter_is_found(call: str, tmp_path: Path) -> None:
    text = "".join(
        f"struct {name} {{ WORD static float f(float x) {{ return x; }} }};\n".replace("WORD", word)
        for name, word in (("A", ""), ("B", "WORD"))
    )
    entry = f"template <template <class> class T, class S> __mlu_entry__ void k(float *y) {{ S s; y[0] = {call}; }}\n"
    assert of_host(text.replace("WORD", "") + entry, tmp_path) == [("f", 5)]
    # Of B, code for the board may call it.
    assert not of_host(text.replace("WORD", "__mlu_func__") + entry, tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        "S s; y[0] = s.f(1);",
        "const S &s = *(const S *)y; y[0] = s.f(1);",
        "S *s = (S *)y; y[0] = s->f(1);",
        "y[0] = S::g(1);",
        "T<int> t; y[0] = t.f(1);",
        "y[0] = O().n; O o; y[0] = o.f(1);",
    ],
)
def test_a_method_of_the_host_is_found_at_its_first_call(call: str, tmp_path: Path) -> None:
    text = (
        "struct S { float f(float x) const { return x; } static float g(float x) { return x; } };\n"
        "template <class U> class T { public: float f(float x) { return x; } };\n"
        "struct O { int n; float f(float x); };\nfloat O::f(float x) { return x; }\n"
        f"__mlu_entry__ void k(float *y) {{ {call} }}\n"
    )
    assert of_host(text, tmp_path) == [("g" if "S::g" in call else "f", 7)]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("A a; y[0] = a(1);", "operator()"),
        ("y[0] = A()(1);", "operator()"),
        ("y[0] = A{}(1);", "operator()"),
        ("y[0] = T<int>()(1);", "operator()"),
        ("map(y, A());", "operator()"),
        ("Alias a; y[0] = a.f(1);", "f"),
        ("y[0] = Old::f(1);", "f"),
        ("Alias a; y[0] = a(1);", "operator()"),
    ],
)
def test_a_functor_and_a_class_by_another_name_are_found(body: str, name: str, tmp_path: Path) -> None:
    word = "" if "map" in body else "/* no call */"
    text = (
        "struct A { float operator()(float x) const { return x; } static float f(float x) { return x; } };\n"
        "template <class U> struct T { float operator()(float x) const { return x; } };\n"
        "using Alias = A; typedef T<int> Many; typedef A Old;\n"
        f"template <class F> __mlu_func__ void map(float *y, F g) {{ {word or 'y[0] = g(1);'} }}\n"
        f"__mlu_entry__ void k(float *y) {{ {body} }}\n"
    )
    assert of_host(text, tmp_path) == [(name, 6 if "map" in body else 7)]


@pytest.mark.parametrize(
    "text",
    [
        "__mlu_func__ float f(float x) { return x; }\n",
        "struct H { int operator()(int x) const { return x; } };\nint g() { return H()(1); }\n#define f(x) (float)x\n",
        "static __mlu_func__ inline float f(float x) { return x; }\n",
        "template <class T> __mlu_func__ T f(T x) { return x; }\n",
        "__mlu_device__ float f(float x) { return x; }\n",
        "__mlu_func__ float f(float x);\nfloat f(float x) { return x; }\n",
        "constexpr float f(float x) { return x; }\n",
        "float f(float x) { return x; }\n__mlu_func__ float f(int x) { return x; }\n",
        'extern "C" __mlu_func__ float f(float x) { while (x > 9) { x /= 2; } return x; }\n',
        "namespace a { __mlu_func__ float f(float); }\nfloat a::f(float x) { return x; }\n#define f(x) a::f(x)\n",
        "struct S { __mlu_func__ float f(float); };\nfloat S::f(float x) { return x; }\n#define f(x) S().f(x)\n",
        "struct S { __mlu_func__ float operator()(float x) const { return x; } };\n#define f(x) S()(x)\n",
    ],
)
def test_a_function_of_the_board_is_none_of_the_host(text: str, tmp_path: Path) -> None:
    assert of_host(text + ENTRY, tmp_path) == []


@pytest.mark.parametrize(
    "call",
    [
        "auto f = [](float x) { return x; }; y[0] = f(1);",
        "S s; y[0] = s.f(1);",
        "S s; y[0] = s.g(1);",
        "Derived s; y[0] = s.f(1);",
        "y[0] = std::is_same<float, int>::value;",
        "decltype(1.f) one = 1; y[0] = one;",
    ],
)
def test_a_name_that_means_something_else_is_no_call(call: str, tmp_path: Path) -> None:
    text = (
        "template <class T, class = void> struct Has {};\n"
        "template <class T> struct Has<T, std::void_t<decltype(T().f(0))>> {};\n"
        "float f(float x) { return x; }\nfloat is_same(float x) { return f(x); }\n"
        "struct S { __mlu_func__ float f(float x) { return x; } __mlu_func__ float g(float x) { return f(x); } };\n"
        "struct Derived : S {};\nstruct Other { float f(float x) { return x; } };\n"
        f"__mlu_entry__ void k(float *y) {{ {call} }}\n"
    )
    assert of_host(text, tmp_path) == []


def test_its_call_runs_and_is_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "called.mlu"
    file.write_text(HEAD + "float f(float x) { return 2 * x; }\n" + ENTRY)
    report = mlusim.verify(bangc.compile(file)["k"], Output((1,), "float32"), dim=4, kind="UNION1")
    assert report.ok
    assert report.outputs["y"].tolist() == [2]
    assert [(finding.kind, finding.times) for finding in report.findings] == [("host-function", 1)]
    assert "code for the board calls f, which has no __mlu_func__" in report.findings[0].text()
    assert "called.mlu:4" in report.findings[0].text()
    (surveyed,) = survey([file])
    assert surveyed.of_host == ("called.mlu:4: f",)
    with pytest.raises(SystemExit) as stopped:
        main(["bangc", "check", str(file)])
    assert stopped.value.code == 0
    assert "host code   called.mlu:4: f is called by code for the board: declare it with" in capsys.readouterr().out


def test_a_stream_of_the_host_in_a_kernel_is_an_error_at_its_line(tmp_path: Path) -> None:
    text = "#include <iostream>\n__mlu_func__ void shows(int n) {\n  if (n > 9) std::cout << n;\n}\n"
    with pytest.raises(CompileError, match=r"called\.mlu:5: cout in code for the board: .*; print with printf"):
        of_host(text, tmp_path)


def test_streams_of_functions_that_the_host_calls_are_allowed(tmp_path: Path) -> None:
    text = (
        "#include <iostream>\n__mlu_host__ __mlu_func__ void shows(int n) { std::cout << n; }\n"
        "int main() { std::cerr << 1; shows(2); }\n"
    )
    assert of_host(text, tmp_path) == []
