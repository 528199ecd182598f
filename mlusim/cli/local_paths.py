"""Output without paths of this machine: commands, JSON and findings name files without their folders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import click

# The folder of an absolute path: a word, a value of NAME=VALUE, or of -I. Not of an address such as tcp://host:8786.
_FOLDER = re.compile(r"(?:^|(?<=[=,:])|(?<=^-I))/(?!/)(?:[^/=,:]+/)*")


def without_folders(words: Iterable[str]) -> list[str]:
    """Return the words of a command with absolute paths reduced to file names."""

    def reduce_word(word: str) -> str:
        inner = _inner_words(word)
        return shlex.join(map(reduce_word, inner)) if inner else _FOLDER.sub("", word)

    return [reduce_word(word) for word in words]


def without_local_folders(value: Any) -> Any:
    """Return JSON types without the working directory, and the folders that the command names, before their files."""
    context = click.get_current_context(silent=True)
    words = context.find_root().obj if context is not None else None
    folders = sorted({f"{Path.cwd()}/", *_folders_in(words or ())} - {"//"}, key=len, reverse=True)
    return _without_folders(value, folders)


def with_file_names(value: Any) -> Any:
    """Return JSON types in which every `file` is relative to the working directory; one elsewhere is only its name."""
    if isinstance(value, dict):
        return {
            key: _relative(item) if key == "file" and isinstance(item, str) else with_file_names(item)
            for key, item in value.items()
        }
    return [with_file_names(item) for item in value] if isinstance(value, list) else value


def _relative(file: str) -> str:
    path = PurePath(file)
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.name


def _without_folders(value: Any, folders: Sequence[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_folders(item, folders) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_folders(item, folders) for item in value]
    if isinstance(value, str) and "/" in value:
        for folder in folders:
            value = value.replace(folder, "")
    return value


def _folders_in(words: Iterable[str]) -> set[str]:
    """Return the folders of absolute paths in the words of a command, each with its last slash."""
    parts = [part for word in words for part in _inner_words(word) or [word]]
    return {folder for part in parts for folder in _FOLDER.findall(part)} - {"/"}


def _inner_words(word: str) -> list[str]:
    """Return the words of a word that describes a run, as in `mlusim diff "k.py --shape 8" B`; else none."""
    try:
        return shlex.split(word) if " -" in word else []
    except ValueError:
        return []
