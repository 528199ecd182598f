"""The translation of a program's files: rewritten and compiled, again with what the compiler says about their names."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlusim.bangc.compiler import cache, headers
from mlusim.bangc.compiler.compilation import CompilerError, Options, build, check, key_words, preprocess
from mlusim.bangc.compiler.device_functions import declared_functions, own_functions
from mlusim.bangc.compiler.headers import library_names
from mlusim.bangc.compiler.rewriting import Rewritten, rewrite
from mlusim.bangc.compiler.source import source_of, text_of_user
from mlusim.bangc.compiler.undeclared_names import LearnedNames, is_of_library, meant_by, undeclared_in
from mlusim.bangc.compiler.unknown_names import is_unknown, remedy_of
from mlusim.errors import CompileError
from mlusim.spelling import choose_one, nearest

if TYPE_CHECKING:
    from mlusim.hardware import Board

# The most times that a program is compiled again with the compiler's messages about its names.
_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Translation:
    """A program for one board.

    Attributes:
        texts: the entries and calls of the compiled files, without their text.
        binary: the shared object; None if only the syntax was checked.
        missing: intrinsics and library functions that it calls and that are not simulated, with the location of the
            first call.
        digest: digest of what determines its code: the user's texts with their headers, the options and the compiler,
            wherever these are.
    """

    texts: list[Rewritten]
    binary: Path | None
    missing: dict[str, tuple[str, int]]
    digest: str

    @property
    def calls(self) -> dict[str, tuple[str, int]]:
        """The calls in its files, as `Rewritten.calls`; of several files, the first counts."""
        return _calls(self.texts)


def translate(
    files: Sequence[Path],
    board: Board,
    options: Options,
    instantiate: tuple[str, ...] = (),
    *,
    syntax_only: bool = False,
) -> Translation:
    """Translate the files of a program, each on its own, or return the translation of the cache. Raises `CompileError`.

    Args:
        files: the files, the main one first.
        board: the board.
        options: compilation options.
        instantiate: templates of entries to instantiate, such as `name<float, 4>`.
        syntax_only: only check for errors.
    """
    headers.generated_headers(options.compiler, options.std)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        preprocessed = list(pool.map(partial(preprocess, on=board, options=options), files))
    if syntax_only:
        return _translation(files, preprocessed, options, instantiate, syntax_only=True)
    key = cache.content_key(cache.code_of_translation(), *key_words(options), *instantiate, *preprocessed)
    cached_file = cache.cache_folder() / f"{key}.translation"
    if cached_file.exists():
        translation: Translation = pickle.loads(cached_file.read_bytes())  # noqa: S301 - our own
        if translation.binary is not None and translation.binary.exists():
            return translation
    translation = _translation(files, preprocessed, options, instantiate)
    cache.publish(cached_file, pickle.dumps(translation))
    return translation


def _translation(
    files: Sequence[Path],
    preprocessed: list[str],
    options: Options,
    instantiate: tuple[str, ...],
    *,
    syntax_only: bool = False,
) -> Translation:
    """Translate preprocessed files."""
    own_names = (
        own_functions(declared_functions(source_of(text)) for text in preprocessed) if len(files) > 1 else frozenset()
    )
    # Names that clash with a header clash in all files.
    clashing: set[str] = set()
    learned = [LearnedNames(clashing=clashing) for _ in files]
    texts = [rewrite(text, instantiate, names, own_names) for text, names in zip(preprocessed, learned, strict=True)]
    for _ in range(_ROUNDS - 1):
        try:
            binary = _compiled(files, texts, options, syntax_only=syntax_only)
            break
        except CompilerError as error:
            for number in _to_rewrite(error, texts, learned):
                texts[number] = rewrite(preprocessed[number], instantiate, learned[number], own_names)
    else:
        binary = _compiled(files, texts, options, syntax_only=syntax_only)
    others = set().union(*(names.others for names in learned))
    missing = {name: location for name, location in _calls(texts).items() if name in others or is_unknown(name)}
    stubs = [Rewritten("", text.entries, text.calls, text.has_main) for text in texts]
    digest = cache.content_key(*key_words(options), *map(text_of_user, preprocessed))
    return Translation(stubs, binary, missing, digest)


def _compiled(files: Sequence[Path], texts: list[Rewritten], options: Options, *, syntax_only: bool) -> Path | None:
    """Return the binary, or None if only the syntax is checked. Raises `CompilerError`."""
    if not syntax_only:
        return build(files, texts, options)
    for number, (file, text) in enumerate(zip(files, texts, strict=True)):
        check(number, file, text, options)
    return None


def _to_rewrite(error: CompilerError, texts: list[Rewritten], learned: list[LearnedNames]) -> Sequence[int]:
    """Learn names from the compiler's messages, and return the numbers of the files that these change.

    Raises `CompileError` with the messages if there are no new names in them.
    """
    clashing = learned[0].clashing
    clashes_before = len(clashing)
    declared = set().union(*(text.declared for text in texts))
    called_names = set().union(*(text.calls for text in texts))
    for name in filter(is_of_library, undeclared_in("\n".join(error.full.values()))):
        if any(re.search(rf"\b{name}\s*\(", text.text) for text in texts):
            called_names.add(name)
    are_new = [learned[number].learn(message, declared, called_names) for number, message in error.full.items()]
    if not any(are_new):
        unknown_names = set().union(*(names.types | names.others for names in learned))
        raise CompileError(error.message + _slips(error.message, unknown_names, called_names)) from None
    return list(error.full) if len(clashing) == clashes_before else range(len(texts))


def _slips(message: str, unknown_names: set[str], called_names: set[str]) -> str:
    """Return a note for each unknown name in a message that may stand for one of the headers."""
    names = set(re.findall(r"\w+", message)) & (unknown_names | undeclared_in(message))
    notes = []
    for name in sorted(filter(is_of_library, names)):
        meant = meant_by(name, called_names)
        candidates = meant or (() if name in called_names else library_names())
        note = choose_one(name, meant) if len(meant) > 1 else nearest(name, candidates, cutoff=0.8).rstrip()
        notes.append((name, note or remedy_of(name)))
    return "".join(f"\nnote: {name} is not a name of the headers: {note}" for name, note in notes if note)


def _calls(texts: list[Rewritten]) -> dict[str, tuple[str, int]]:
    return {name: location for text in reversed(texts) for name, location in text.calls.items()}
