"""Completion for bash, zsh and fish: as in click, except for words with `:` and `=`, and values that may continue.

bash splits words at `:` and `=`, so that click would see `add.py`, `:`, `add` for a kernel. Here the line itself is
parsed, and the part that bash already has is removed from the completions. No space follows a value that ends with `:`,
`=` or `/`.
"""

from __future__ import annotations

import os
import re
from typing import Any

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

_BASH = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[:=/] ]] && compopt -o nospace
                ;;
        esac
    done < <(
        COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$1"
    )
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ASSIGNMENT = re.compile(r"\w+=")


class Bash(BashComplete):
    """bash: uses the line up to the cursor instead of its words."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the last one, and the last one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        if not words or line[-1:].isspace():
            words.append("")
        while len(words) > 1 and _ASSIGNMENT.match(words[0]):
            del words[0]
        return words[1:-1], words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the part of each value after the last position where bash splits the word."""
        items = super().get_completions(args, incomplete)
        breaks = "".join(sorted({*os.environ.get("COMP_WORDBREAKS", ":=")} & {*":=@"}))
        broken_part = re.match(f".*[{breaks}]", incomplete) if breaks else None
        if broken_part:
            for item in items:
                if item.type == "plain":
                    item.value = item.value.removeprefix(broken_part[0])
        return items


def _with_option(incomplete: str, items: list[CompletionItem[Any]]) -> list[CompletionItem[Any]]:
    """Prefix values of `--option=value` with the option, for shells that do not split the word."""
    option, equals, _ = incomplete.partition("=")
    for item in items:
        if equals and option.startswith("--") and item.type == "plain":
            item.value = f"{option}={item.value}"
    return items


class Zsh(ZshComplete):
    """zsh: no space after a value that may continue; files after `=`."""

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        "local -a whole=(${completions:#*[:=/]}) open=(${(M)completions:#*[:=/]})\n"
        "        (( $#whole )) && compadd -U -V unsorted -a whole\n"
        "        (( $#open )) && compadd -U -V unsorted -S '' -a open",
    ).replace("_path_files", "compset -P '*='; _path_files")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """As in click, each as the whole word."""
        return _with_option(incomplete, super().get_completions(args, incomplete))


class Fish(FishComplete):
    """fish: `--option=value` as whole words."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """As in click, each as the whole word."""
        return _with_option(incomplete, super().get_completions(args, incomplete))


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
