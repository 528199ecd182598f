"""C++ in which a bracket, a comparison or an attribute could be taken for another part of a declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.compiler.device_functions import Declared, declared_functions
from mlusim.bangc.compiler.rewriting import rewrite
from mlusim.bangc.compiler.source import CLASS, CODE, NAMESPACE, Source, source_of, split_at_commas

FILE = Path(__file__).parents[1] / "kernels" / "syntax.mlu"


def _source(text: str) -> Source:
    return source_of(f'# 1 "file.mlu"\n{text}\n')


@pytest.mark.slow
def test_they_run_and_instances_of_a_template_share_the_variables_of_the_file() -> None:
    module, device = bangc.compile(FILE), Device()
    assert module.entries == ["forms", "count<...>"]
    out = device.alloc(4, "int32")
    results = []
    for name in ("forms", "count<3>", "count<5>"):
        arguments = [bytes(2)] if name == "forms" else []
        device.launch(module[name], out, *arguments, dim=1, kind="BLOCK")
        device.synchronize()
        results.append(device.download(out).tolist())
    assert results[0] == [8, 5, 5, 6]
    assert [result[0] for result in results[1:]] == [10, -10]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("template <class T, int N = 64> struct Tile", CLASS),
        ("struct alignas(64) B", CLASS),
        ("struct __attribute__((packed)) [[deprecated]] B final : A<(1 > 0)>", CLASS),
        ("template <class T> requires (sizeof(T) == 4) struct B", CLASS),
        ("public: enum class E : decltype(0)", CLASS),
        ("namespace [[deprecated]] a::inline b", NAMESPACE),
        ("struct B f(int x)", CODE),
        ("struct B x =", CODE),
        ("template <class T> auto f(T x) -> B<sizeof(T) == 4>", CODE),
        ("bool operator()(struct B &b) const", CODE),
    ],
)
def test_what_a_brace_opens(head: str, kind: str) -> None:
    source = _source(f"{head} {{}}")
    assert source.scope(len(source.tokens) - 2)[0] == kind


@pytest.mark.parametrize(
    "head",
    [
        "int f(int x) noexcept(sizeof(int) == 4)",
        "typename std::enable_if<sizeof(int) == 4>::type f(int x)",
        "std::enable_if_t<N < 4> f(int x)",
        "std::enable_if_t<is(3) >= 2, decltype(g(1))> f(int x)",
        "__attribute__((noinline)) int f(int x) const",
        "auto f(int x) -> std::array<int, 3>",
        "[[nodiscard]] f(int x) : a{x}, b<int>{x}, c(x)",
    ],
)
def test_a_function_of_the_board_has_its_name_and_body(head: str) -> None:
    assert declared_functions(_source(f"__mlusim_func {head} {{}}")) == Declared(frozenset({"f"}), frozenset())
    if ":" not in head.replace("::", ""):
        assert declared_functions(_source(f"__mlusim_func {head};")) == Declared(frozenset(), frozenset({"f"}))


def test_operands_of_assembly_may_have_qualified_names() -> None:
    text = rewrite('# 1 "file.mlu"\nvoid f() { asm("x %[n], %[a];" :: [n] "r"(C::N), [a] "r"(q ? 1 : 2)); }\n').text
    assert '__mlusim_assembly("x %[n], %[a];", (C::N), (q ? 1 : 2))' in text


@pytest.mark.parametrize(
    ("text", "count"),
    [("a = x < y, b", 2), ("a = x << 2, b", 2), ("A<B<1, 2>, (3 > 2)> a, b[f(1, 2)]", 2), ("A<T, B{1}> a", 1)],
)
def test_commas_of_declarations(text: str, count: int) -> None:
    assert len(split_at_commas(_source(text).tokens)) == count
