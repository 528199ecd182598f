"""Suggestions for misspelt names in messages: "did you mean mlu590-h8?"."""

from __future__ import annotations

from collections.abc import Iterable

_ALMOST_EQUAL = 0.9


def nearest(word: str, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> str:
    """Return "did you mean X? " for a message about an unknown name, or "" if no name is similar."""
    from difflib import SequenceMatcher, get_close_matches

    def distance(name: str) -> tuple[float, bool]:
        # Of equally similar names, one that continues the word comes first: `add` before `pad` for `ad`.
        return -SequenceMatcher(None, name, word).ratio(), not name.startswith(word)

    names = list(dict.fromkeys(names))
    # A name whose first words are the word is most likely meant, however long: `nram_bytes` for `nram`. Only one that
    # differs in a letter or so is as likely: `clusters` for `cluster`, not `cluster_start_ps`.
    longer = [name for name in names if word and name.startswith((f"{word}_", f"{word}-"))]
    close = get_close_matches(word, names, n=count + 4, cutoff=_ALMOST_EQUAL if longer else cutoff)
    similar = sorted(dict.fromkeys((*longer, *close)), key=distance)[:count]
    return f"did you mean {' or '.join(similar)}? " if similar else ""


def choose_one(word: object, names: Iterable[str]) -> str:
    """Return "did you mean a? choose one of a, b" for a message about an unknown name, or a value that is none."""
    names = list(names)
    suggestion = nearest(word, names) if isinstance(word, str) else ""
    return f"{suggestion}choose one of {', '.join(names)}"


def it_has(names: Iterable[str], word: str = "") -> str:
    """Return "it has a, b", or "it has none", for a message about an unknown name; "did you mean a? " comes first."""
    names = list(names)
    return f"{nearest(word, names)}it has {', '.join(names) or 'none'}"
