"""Messages of the compiler, at the user's lines and without names of the rewritten text."""

from __future__ import annotations

import re
from pathlib import Path

from mlusim.bangc.calls.intrinsics import intrinsics
from mlusim.bangc.compiler.entries import ENTRIES, MAIN
from mlusim.bangc.compiler.headers import DECLARATIONS, library_names
from mlusim.bangc.compiler.message_columns import with_own_columns
from mlusim.bangc.compiler.undeclared_names import OWN, is_of_library
from mlusim.spelling import nearest

_MOST_LINES = 40
_CALL = re.compile(r"error: no matching function for call to (?:\u2018|')(\w+)(?:<[^()]*>)?(?:\((.*)\))?(?:\u2019|')")
# The beginning of a message, and the source lines that follow one.
_MESSAGE = re.compile(r": (In |fatal error:|error:|warning:|required from )")
_EXCERPT = re.compile(r" +(\d*) \| ?")
# The location that a message is about.
_LOCATION = re.compile(r"(.+?):\d+:\d+: (?:fatal error|error|warning|note):")
# Names of CUDA, and their equivalents in BANG C.
_OF_CUDA = {
    "__global__": "__mlu_entry__",
    "__device__": "__mlu_func__",
    "__host__": "__mlu_host__",
    "__shared__": "__mlu_shared__, or __nram__ for a core's own memory",
    "__constant__": "__mlu_const__",
    "threadIdx": "taskId: a task is a core, and its vector instructions stand for threads",
    "blockIdx": "taskId, or clusterId for the cores that share an SRAM",
    "blockDim": "taskDim, or coreDim for the cores that share an SRAM",
    "gridDim": "taskDim",
}
_WORD_OF_CUDA = re.compile(rf"error: .*?(?:\u2018|')({'|'.join(_OF_CUDA)})(?:\u2019|')")
# A message about a later standard of C++.
_LATER_STANDARD = re.compile(r"available (?:only )?with \W?-std=(?:c|gnu)\+\+(\w+)")
# Words of BANG C for memories and functions, and a message about a word that may be a slip of one. g++ suggests others.
_QUALIFIERS = (
    *(f"__{memory}__" for memory in ("nram", "wram", "ldram", "mlu_shared", "mlu_const", "mlu_device")),
    *(f"__mlu_{function}__" for function in ("entry", "global", "func", "host")),
)
_MISSPELT = re.compile(
    r"(error: (?:unknown type name |use of undeclared identifier )?(?:\u2018|')(__\w+)(?:\u2019|')"
    r"(?: was not declared in this scope| does not name a type)?)(?:; did you mean \W*(\w+)\W*\?)?$"
)
# The call by which the headers place an array, and its only error.
_PLACING = "array_in_memory"
_NOT_CONSTANT = (
    "error: the size of an array with a memory space must be a constant expression, since the compiler places the array"
    "; declare it with the largest size that it may need"
)
# Types of arrays with a memory space in the rewritten text.
_ARRAY_TYPE = re.compile(r"mlusim_t\d+(?: ?&)?")
# Other names of the rewritten text: initial values, records, references; and types of arrays whose declaration failed.
# An error about one follows from another error.
_REWRITTEN = re.compile(
    r"mlusim_[irs]\d+|mlusim_t\d+\W (?:does not name|was not declared|has not been)|name \Wmlusim_t\d"
)
# A launch whose arguments do not fit its entry, and an entry that returns a value, as the headers see them.
_LAUNCH = re.compile(
    r"error: no match(?:ing function)? for call to .*?FunctionLauncher<[\w:]+(?:, ([^\u2019']*?))?>[\u2019')]+"
    r"(?: (\(.*\)))?.*"
)
# The words between <<< and >>>, after the name and the entry; g++ names the types.
_CONFIGURATION = re.compile(
    r"error: no matching function for call to [\u2018']launcher(?:\(const char ?\[\d+\], (.*)\))?[\u2019'].*"
)
# The type of a launch's argument, as the headers name it, and an option of g++ that mlusim does not set.
_DECAYED = re.compile(r"std::decay<([^<>]*)>::type(?:(\u2019) \{aka \u2018[^\u2019]*\u2019\})?")
_PERMISSIVE = " [-fpermissive]"
_RETURNING = re.compile(r"error: (?:invalid )?\W?static_cast\W? from (?:type )?[\u2018'](.+?) \(\*\)\(.*")
_RETURNS = r"error: an entry returns void, and this one \1; store the result through a pointer"
# An argument of a launch of a template, counted from 0.
_ARGUMENT = re.compile(r"[\u2018']mlusim_a#(\d+)[\u2019']")
# A type and a constant of the vendor's libraries that the headers lack, as their stand-ins appear in a message.
_FOREIGN_TYPE = re.compile(r" [{(]aka [\u2018']mlusim::Foreign[^\u2018\u2019']*[\u2019'][})]")
_FOREIGN_CONSTANT = re.compile(r"error: .*mlusim::ForeignConstant")
# A rule for the arguments of an intrinsic, which the headers check where its template is instantiated: by g++ after the
# lines that say for which types and for which call, by clang before them.
_RULE = re.compile(r"error: static assertion failed.*?: ((?:__|cn)\w+: .+)")
_INSTANCE = re.compile(
    r"In instantiation of .*\[with (A0 = .+)\]|specialization '(?:__|cn)\w+<(.*?)(?:, 0)?>' requested here"
)
_CALLED_AT = re.compile(r"(.+?):(\d+):\d+:(?: +required from| .* requested here)")
_BEFORE_RULE = re.compile(r"^In file included| +from |: In | required from ")
_NEXT_MESSAGE = re.compile(rf"{_BEFORE_RULE.pattern}|: (?:fatal error|error|warning):")
_HEADERS = str(Path(__file__).parent.parent / "include")
# The lines that are appended to a file.
_ENTRY_EXCERPTS = re.compile(rf"^({ENTRIES}:[^\n]*)(?:\n +\d* \|[^\n]*)+", re.MULTILINE)
_ENTRIES = re.compile(rf"^{ENTRIES}:(?:\d+:)* ?", re.MULTILINE)


def compiler_text(text: str, path: Path, compiled: str = "") -> str:
    """Return the compiler's messages from the first error on; `compiled` is the rewritten text that it compiled."""
    lines = with_own_columns([line for line in text.splitlines() if line.strip()], compiled, _lines_of)
    lines = _with_rules_at_calls(lines)
    lines = _with_array_sizes(_with_qualifiers(lines))
    lines = _without_headers(_with_foreign_constants(_with_launch_texts(_with_configurations(lines))))
    lines = _with_own_lines(_without_candidates(_without_consequences(lines)))
    first = next((index for index, line in enumerate(lines) if "error" in line), 0)
    context = first
    while context and (": In " in lines[context - 1] or "from " in lines[context - 1]):
        context -= 1
    text_shown = "\n".join(lines[context : context + _MOST_LINES]).replace(MAIN, "main").replace(OWN, "")
    notes = "".join(f"\nnote: {note}" for note in _notes(text_shown))
    text_shown = _DECAYED.sub(r"\1\2", text_shown.replace(_PERMISSIVE, ""))
    text_shown = _FOREIGN_TYPE.sub(" (a type of the vendor's libraries, which are not simulated)", text_shown)
    text_shown = _ENTRY_EXCERPTS.sub(r"\1", text_shown)
    text_shown = _ENTRIES.sub(f"{path}: at the end of the file: ", text_shown)
    return f"{path.name} does not compile:\n{_ARRAY_TYPE.sub('array', text_shown)}{notes}"


def _notes(text: str) -> list[str]:
    """Return the remedies of messages: the name of BANG C, the handle of a record of CNRT, the option of mlusim."""
    cuda_words = dict.fromkeys(_WORD_OF_CUDA.findall(text))
    notes = [f"{word} is a name of CUDA; in BANG C it is {_OF_CUDA[word]}" for word in cuda_words]
    if "incomplete type" in text:
        handles = {f"{name}_t" for name in re.findall(r"\bcn\w+", text)} & library_names()
        notes += [f"{name[:-2]} is what the handle {name} points to; declare {name}" for name in sorted(handles)]
    if standard := _LATER_STANDARD.search(text):
        notes.append(f"choose this standard of C++ with --std gnu++{standard[1]}, or std= in Python")
    return notes


def _with_rules_at_calls(lines: list[str]) -> list[str]:
    """State each rule for the arguments of an intrinsic once, at the call, with the types that it passes."""
    result: list[str] = []
    calls = set()
    at = 0
    while at < len(lines):
        rule = _RULE.search(lines[at])
        at += 1
        if rule is None or str(DECLARATIONS) not in lines[at - 1]:
            result.append(lines[at - 1])
            continue
        context: list[str] = []
        while result and _BEFORE_RULE.search(result[-1]):
            context.insert(0, result.pop())
        while at < len(lines) and not _NEXT_MESSAGE.search(lines[at]):
            context.append(lines[at])
            at += 1
        call = next(filter(None, map(_CALLED_AT.match, context)), None)
        types = next(filter(None, map(_INSTANCE.search, context)), None)
        # g++ says for the first of several rules what call it is.
        if call is None or types is None or call[0] in calls:
            continue
        calls.add(call[0])
        types_passed = re.findall(r"\bA\d+ = ([^;]+)", types[1]) if types[1] else _types(types[2])
        types_text = ", ".join(types_passed).replace("_Float16", "half").replace(" *", "*")
        result.append(f"{call[1]}:{call[2]}: error: {rule[1]}; the call passes ({types_text})")
        result += [f"{call[2]:>5} | {line.rstrip()}" for line in _lines_of(call[1])[int(call[2]) - 1 : int(call[2])]]
    return result


def _with_foreign_constants(lines: list[str]) -> list[str]:
    """Name the constants of the vendor's libraries that stand where only their number serves."""
    result: list[str] = []
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        message = _FOREIGN_CONSTANT.search(line)
        names = dict.fromkeys(filter(is_of_library, re.findall(r"\b[A-Z]\w+", next_line))) if message else {}
        if message and names:
            options = " ".join(f"-D {name}=<number>" for name in names)
            error = f"error: {', '.join(names)}: a constant of the vendor's libraries, whose number matters here"
            result.append(f"{line[: message.start()]}{error}; define it: {options}")
        elif "mlusim::ForeignConstant" not in line or message:
            result.append(line)
    return result


def _with_qualifiers(lines: list[str]) -> list[str]:
    """Suggest the words of BANG C that misspelt ones may stand for, and drop what the compiler would insert."""
    result: list[str] = []
    other = ""
    for line in lines:
        message = _MISSPELT.search(line)
        suggestion = (
            nearest(message[2], _QUALIFIERS, cutoff=0.7).rstrip() if message and message[2] not in _OF_CUDA else ""
        )
        if message and suggestion:
            other = message[3] or ""
            result.append(f"{line[: message.start()]}{message[1]}; {suggestion}")
        elif not (other and line.strip(" |") == other):
            result.append(line)
    return result


def _with_array_sizes(lines: list[str]) -> list[str]:
    """Return the messages up to that about an array whose size is not constant, in the words of the rule."""
    for index, line in enumerate(lines):
        call = _CALL.search(line)
        if call is not None and call[1] == _PLACING:
            excerpt = [next_line for next_line in lines[index + 1 : index + 2] if _PLACING not in next_line]
            return [*lines[:index], line[: call.start()] + _NOT_CONSTANT, *excerpt]
    return lines


def _with_launch_texts(lines: list[str]) -> list[str]:
    """Describe what is wrong with a launch or an entry."""

    def of_launch(match: re.Match[str]) -> str:
        passed = "" if match[2] is None else f", and the launch passes {match[2]}"
        return f"error: the arguments of the launch do not fit the entry: it takes ({match[1] or ''}){passed}"

    def of_argument(match: re.Match[str]) -> str:
        return f"argument {int(match[1]) + 1}"

    own_types = (line if _EXCERPT.match(line) else line.replace("_Float16", "half") for line in lines)
    return [_ARGUMENT.sub(of_argument, _RETURNING.sub(_RETURNS, _LAUNCH.sub(of_launch, line))) for line in own_types]


def _with_configurations(lines: list[str]) -> list[str]:
    """Say what belongs between <<< and >>>, in place of the candidates for what stands there."""

    def of_configuration(match: re.Match[str]) -> str:
        types_passed = ", ".join(_types(match[1] or "")[1:])
        types_text = f", and not ({types_passed})" if types_passed else ""
        return f"error: a launch is name<<<dim, type, queue>>>: cnrtDim3_t, cnrtFunctionType_t, cnrtQueue_t{types_text}"

    result: list[str] = []
    drops = after_excerpt = False
    for line in lines:
        is_excerpt = _EXCERPT.match(line) is not None
        if not is_excerpt and _CONFIGURATION.search(line):
            drops, after_excerpt = True, False
            result.append(_CONFIGURATION.sub(of_configuration, line))
            continue
        if drops and not is_excerpt:
            drops = _HEADERS in line or not _MESSAGE.search(line)
            after_excerpt = True
        if not drops or (is_excerpt and not after_excerpt):
            result.append(line)
    return result


def _without_headers(lines: list[str]) -> list[str]:
    """Leave out lines of mlusim's headers; of notes about them, keep what they say of the call."""
    result: list[str] = []
    drops = False
    for line in lines:
        if _EXCERPT.match(line):
            if not drops:
                result.append(line)
            continue
        location = _LOCATION.match(line)
        drops = _HEADERS in line and (location is None or location[0].endswith("note:"))
        if not drops:
            result.append(line)
        elif location and "candidate: " not in line:
            result.append("note: " + line[location.end() :].strip().removeprefix("candidate function not viable: "))
    return result


def _without_consequences(lines: list[str]) -> list[str]:
    """Leave out errors about names of the rewritten text that come after another error."""
    result: list[str] = []
    drops = after_error = False
    for line in lines:
        if _MESSAGE.search(line):
            drops = after_error and _REWRITTEN.search(line) is not None
            after_error = after_error or "error" in line
        if not drops:
            result.append(line)
    return result


def _with_own_lines(lines: list[str]) -> list[str]:
    """Show lines as the user's file has them.

    clang quotes the rewritten text, with macros expanded; g++ reads the file. Marks below a line that is replaced point
    to columns of the other text and are left out.
    """
    result: list[str] = []
    user_lines: list[str] = []
    drops = False
    for line in lines:
        if location := _LOCATION.match(line):
            user_lines = _lines_of(location[1])
        excerpt = _EXCERPT.match(line)
        if excerpt is None or not excerpt[1]:
            if excerpt is None or not drops:
                result.append(line)
            continue
        number = int(excerpt[1])
        user_line = user_lines[number - 1].rstrip() if 0 < number <= len(user_lines) else None
        drops = user_line is not None and user_line.split() != line[excerpt.end() :].split()
        result.append(f"{excerpt[0]}{user_line}" if drops else line)
    return result


def _lines_of(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # a name that the compiler made up, such as <built-in>
        return []


def _without_candidates(lines: list[str]) -> list[str]:
    """Replace candidate declarations of an intrinsic by the number of arguments it takes."""
    arities = {intrinsic.name: intrinsic.arities for intrinsic in intrinsics()}
    result: list[str] = []
    in_excerpt = drops = False
    for line in lines:
        call = _CALL.search(line)
        if _MESSAGE.search(line):
            drops = in_excerpt = call is not None and call[1] in arities
        elif in_excerpt and not _EXCERPT.match(line):
            in_excerpt = False
        if not drops or in_excerpt:
            result.append(line)
        if drops and call and in_excerpt:
            result.append(f"note: {_arity_text(call[1], arities[call[1]], call[2])}")
    return result


def _arity_text(name: str, arities: tuple[int, ...], arguments: str | None) -> str:
    *first_arities, last = map(str, arities)
    arities_text = f"{', '.join(first_arities)} or {last}" if first_arities else last
    return f"{name} takes {arities_text} arguments" + ("" if arguments is None else f", not {len(_types(arguments))}")


def _types(arguments: str) -> list[str]:
    """Return the types in a list; a template or function type is one."""
    depth, types = 0, [""]
    for letter in arguments:
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and not depth:
            types.append("")
        else:
            types[-1] += letter
    return [text.strip() for text in types] if arguments.strip() else []
