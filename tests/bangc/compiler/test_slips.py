"""Misspelt names of BANG C and CNRT: the message has the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.host.program import Program
from mlusim.errors import CompileError, InputError, KernelError, MlusimError

HEAD = "#include <bang.h>\n#include <cnrt.h>\n__mlu_entry__ void k(float *p) {}\n"


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__mlu_entery__ void f(float *p) {}\n", r":4:\d+: error: .*__mlu_entery__.*; did you mean __mlu_entry__\?"),
        (
            "__mlu_func float f(float x) { return x; }\n",
            r":4:\d+: error: .*__mlu_func\W.*; did you mean __mlu_func__\?",
        ),
        ("__mlu_func__ void f() { __nram float a[64]; }\n", r":4:\d+: error: .*__nram\W.*; did you mean __nram__\?"),
        (
            "int main() {\n  cnrtDim3 d = {1, 1, 1};\n  return d.x;\n}\n",
            r"note: cnrtDim3 is not a name of the headers: did you mean cnrtDim3_t\?",
        ),
        # In code that never runs, and as a status that nothing equals.
        (
            "int main(int n, char **) {\n  if (n > 9) k<<<1, cnrtFuncTypeUnoin1, nullptr>>>(nullptr);\n}\n",
            r"(?s):5:\d+: error: .*cnrtFuncTypeUnoin1.*did you mean cnrtFuncTypeUnion1\?",
        ),
        (
            "int main() {\n  k<<<1, CNRT_FUNC_TYPE_UNION3, nullptr>>>(nullptr);\n}\n",
            (
                r"(?s):5:\d+: error: .*note: CNRT_FUNC_TYPE_UNION3 is not a name of the headers: did you mean "
                r"CNRT_FUNC_TYPE_UNION\d\? choose one of CNRT_FUNC_TYPE_BLOCK, .*UNION8$"
            ),
        ),
        (
            "int main() {\n  return cnrtMemcpy(0, 0, 4, cnrtMemcpyDeviceToHost);\n}\n",
            (
                r"(?s):5:\d+: error: .*note: cnrtMemcpyDeviceToHost is not a name of the headers: did you mean "
                r"cnrtMemcpyDevToHost\? choose one of cnrtMemcpyDevToDev, "
            ),
        ),
        (
            "int main() {\n  return cnrtSyncDevice() == cnrtSucces;\n}\n",
            r"(?s):5:\d+: error: .*cnrtSucces\W.*did you mean cnrtSuccess\?",
        ),
        # Functions: of one letter, and with a misspelt word, which no function of CNRT has.
        (
            "int main(int n, char **) {\n  if (n > 9) cnrtQueueSyn(0);\n}\n",
            r"(?s):5:\d+: error: .*note: cnrtQueueSyn is not a name of the headers: did you mean cnrtQueueSync\?",
        ),
        (
            "int main() {\n  return cnrtDeviceSyncronize();\n}\n",
            r"(?s):5:\d+: error: .*note: cnrtDeviceSyncronize is not a name of .*: did you mean cnrtSyncDevice\?",
        ),
        (
            "int main() {\n  cnrtQueu_t q;\n}\n",
            r"(?s):5:\d+: error: .*note: cnrtQueu_t is not a name of the headers: did you mean cnrtQueue_t\?",
        ),
    ],
)
def test_a_misspelt_word_is_a_compiler_error_with_the_right_one(
    text: str, message: str, tmp_path: Path, compiler: str
) -> None:
    file = tmp_path / "slip.mlu"
    file.write_text(HEAD + text)
    with pytest.raises(CompileError, match=message) as raised:
        bangc.compile(file, compiler=compiler)
    assert "__nan" not in str(raised.value)


@pytest.mark.grid(8)
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("cnrtDeviceSynchronize();", KernelError, r"cnrtDeviceSynchronize is not .*: did you mean cnrtSyncDevice\?"),
        (
            "cnrtTurnOffTheFan(0);",
            KernelError,
            "cnrtTurnOffTheFan is not simulated: mlusim does not have this function of the",
        ),
        (
            "cnrtMemset(p, 16, 0);",
            InputError,
            "cnrtMemset of 0 B with the value 16: the arguments are the address, the",
        ),
        ("cnrtMemcpy(p, h, 16, (cnrtMemTransDir_t)9);", InputError, r"cnrtMemcpy with the direction 9: choose one of"),
        (
            "cnrtMemcpy2DAsync(p, 8, h, 8, 8, 2, (cnrtQueue_t)0, (cnrtMemTransDir_t)9);",
            InputError,
            r"cnrtMemcpy2DAsync with the direction 9: choose one of",
        ),
        (
            "cnrtMemcpy2DAsync(p, 8, h, 8, 8, 2, (cnrtMemTransDir_t)9, (cnrtQueue_t)0);",
            InputError,
            r"cnrtMemcpy2DAsync with the direction 9: choose one of",
        ),
        (
            "cnrtMemcpy2DAsync(p, 8, h, 8, 8, 2, (cnrtQueue_t)0, cnrtMemcpyDevToHost);",
            InputError,
            r"cnrtMemcpy2DAsync says DevToHost but copies to device memory from host memory",
        ),
        (
            "k<<<1, (cnrtFunctionType_t)3, 0>>>(p);",
            InputError,
            r"k<<<\.\.\.>>> with the function type 3: choose one of cnrtFunc",
        ),
    ],
)
def test_a_misspelt_name_of_cnrt_is_an_error_where_it_is_used(
    call: str, error: type[MlusimError], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "slip.mlu"
    file.write_text(f"{HEAD}int main() {{\n  float *p, h[4] = {{}};\n  cnrtMalloc((void **)&p, 16);\n  {call}\n}}\n")
    with pytest.raises(error, match=rf"main, slip\.mlu:7: {message}"):
        Program(bangc.compile(file), Device()).run()


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("cnrtQueue q;", "note: cnrtQueue is what the handle cnrtQueue_t points to; declare cnrtQueue_t"),
        ("cnrtDim3 dim{1, 1, 1};", r"cnrtDim3\W+ was not declared(?s:.)*did you mean cnrtDim3_t\?"),
        ("} template <class T> concept Any = true; int other() {", r"with --std gnu\+\+20, or std= in Python"),
    ],
)
@pytest.mark.grid(3)
def test_a_type_without_its_suffix_and_a_later_standard_have_a_remedy(
    declaration: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "type.mlu"
    file.write_text(f"{HEAD}int main() {{\n  {declaration}\n}}\n")
    with pytest.raises(CompileError, match=message):
        bangc.compile(file, syntax_only=True)


@pytest.mark.parametrize("constant", ["CNRT_COMPLEX64", "CNNL_DTYPE_COMPLEX_HALF"])
@pytest.mark.grid(2)
def test_a_constant_that_the_headers_lack_compiles(constant: str, tmp_path: Path) -> None:
    file = tmp_path / "lacked.mlu"
    file.write_text(f"{HEAD}int use(int);\nint main() {{ return use({constant}); }}\n")
    bangc.compile(file, syntax_only=True)
