"""Completion of FILE.py:KERNEL and of setting names from the file's text; user code is not executed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import click

from mlusim.source_code import KERNEL_SUFFIXES

_ENTRY = re.compile(r"__mlu_(?:entry|global)__\s+void\s+(\w+)\s*\(")


def complete_kernel(incomplete: str) -> list[str]:
    """Return completions: files of kernels, with a colon, and directories; after a colon, kernels."""
    file, colon, word = incomplete.rpartition(":")
    if colon and file.endswith(KERNEL_SUFFIXES):
        return [f"{file}:{name}" for name in kernel_names(file) if name.startswith(word)]
    folder, slash, begin = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").iterdir())
    except (OSError, ValueError):
        return []
    items = []
    for entry in entries:
        if entry.name.startswith(begin) and (begin.startswith(".") or not entry.name.startswith(".")):
            if entry.is_dir() and entry.name != "__pycache__":
                items.append(f"{folder}{slash}{entry.name}/")
            elif entry.suffix in KERNEL_SUFFIXES:
                items.append(f"{folder}{slash}{entry.name}:")
    return items


def complete_kernel_argument(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`complete_kernel` as `shell_complete` of an argument."""
    del ctx, param
    return complete_kernel(incomplete)


def complete_reference(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Complete functions of FILE.py after a colon, files before it."""
    from click.shell_completion import CompletionItem

    del ctx, param
    file, colon, word = incomplete.rpartition(":")
    if not colon:
        return [CompletionItem(incomplete, type="file")]
    functions = [node.name for node in _body(file) if isinstance(node, ast.FunctionDef)]
    return [CompletionItem(f"{file}:{name}") for name in functions if name.startswith(word)]


def kernel_names(file: str) -> list[str]:
    """Return asynchronous functions of a .py file, entries of a .mlu file; none if the file cannot be read."""
    if file.endswith(".py"):
        return [node.name for node in _body(file) if isinstance(node, ast.AsyncFunctionDef)]
    try:
        return _ENTRY.findall(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []


def setting_names(text: str) -> list[str]:
    """Return the parameters with a default of FILE.py:KERNEL."""
    file, _, name = text.rpartition(":") if not text.endswith(".py") else (text, ":", "")
    names: list[str] = []
    for node in _body(file):
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef) and name in ("", node.name):
            with_default = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            names += [argument.arg for argument in (*with_default, *node.args.kwonlyargs)]
    return names


def _body(file: str) -> list[ast.stmt]:
    """Return the statements of a file; none if it cannot be read."""
    try:
        return ast.parse(Path(file).read_bytes()).body
    except (OSError, ValueError, SyntaxError):
        return []
