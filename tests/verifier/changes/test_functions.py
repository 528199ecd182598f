"""The functions that a kernel may call are found wherever they are, and replaced for one thread only."""

from __future__ import annotations

import ast
import math
from functools import partial
from threading import Event, Thread

import pytest

from mlusim.verifier.changes.functions import functions_of, replaced
from mlusim.verifier.changes.source_changes import FunctionSource, definition_of


class Base:
    def value(self, first, *rest, factor=2, **named):
        return first, rest, factor, named, 1


class Derived(Base):
    def value(self, *arguments, **named):
        return super().value(*arguments, **named)

    @staticmethod
    def numbers(count):
        yield from range(count)


def closing_over(offset):
    def inner(value):
        return value + offset + 1

    return inner


def numbers(count):
    """Has the name of a method that the kernel calls, and is never called."""
    return [math.ceil(count / 2)]


TABLE = {"first": closing_over(10)}


async def kernel(core):
    return Derived().value(1), TABLE["first"](1), list(Derived.numbers(2))


def changed(function, old, new):
    node = definition_of(function)
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and one.value == old:
            one.value = new
    return node


def test_functions_behind_classes_tables_closures_and_partials_are_found():
    found = [function.__qualname__ for function in functions_of(partial(kernel, None))]
    assert found[0] == "kernel"
    assert set(found) == {
        "kernel",
        "Base.value",
        "Derived.value",
        "Derived.numbers",
        "closing_over.<locals>.inner",
    }


def test_a_function_that_calls_those_of_an_imported_module_is_what_its_file_says():
    source = FunctionSource.of(numbers)
    assert source is not None
    assert source.node.name == "numbers"


@pytest.mark.parametrize(
    ("function", "call", "before", "after"),
    [
        (
            Base.value,
            lambda: Derived().value(5, 6, other=7),
            (5, (6,), 2, {"other": 7}, 1),
            (5, (6,), 2, {"other": 7}, 9),
        ),
        (TABLE["first"], lambda: TABLE["first"](1), 12, 20),
    ],
)
def test_a_function_is_replaced_in_this_thread_alone_and_for_a_while(function, call, before, after):
    elsewhere = []
    with replaced(function, changed(function, 1, 9)):
        assert call() == after
        thread = Thread(target=lambda: elsewhere.append(call()))
        thread.start()
        thread.join()
    assert [*elsewhere, call()] == [before, before]


def test_two_threads_that_replace_a_function_leave_it_as_it_was():
    function, before = Base.value, Base.value.__code__
    entered = Event()

    def replace_too():
        entered.set()
        with replaced(function, other):
            pass

    one, other, thread = changed(function, 1, 9), changed(function, 1, 7), Thread(target=replace_too)
    with replaced(function, one):
        thread.start()
        entered.wait()
        thread.join(0.05)
        assert thread.is_alive()
    thread.join()
    assert function.__code__ is before
