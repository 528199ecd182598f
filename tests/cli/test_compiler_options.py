"""Options of the vendor's compiler, which users pass to `mlusim bangc` from their build scripts."""

import numpy as np
import pytest

from command_line import call


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-O3",), "; -O3 is an option of compilers, and mlusim sets its own: leave it out; see `mlusim bangc check"),
        (("-fno-exceptions", "-g"), "; -fno-exceptions is an option of compilers"),
        (("-std=c++17",), "; the standard is given by --std c++17; see"),
        (("--bang-mlu-arch=mtp_372",), "; the board is given by --device: mlu365-d2, mlu370-s4, mlu370-x4, "),
        (("--bang-mlu-arch", "mtp_592"), "; the board is given by --device: mlu590-h8, "),
        (("--bang-arch=compute_30",), "; the board is given by --device: mlusim devices lists the boards; see"),
    ],
)
def test_the_error_says_what_to_write_instead(words, told, tmp_path):
    (tmp_path / "empty.mlu").write_text("")
    done = call("bangc", "check", str(tmp_path / "empty.mlu"), *words)
    assert done.exit_code == 2
    assert told in done.stderr


def test_an_unknown_command_is_an_error_that_lists_the_commands(tmp_path):
    for word, told in (
        ("nope", "no command 'nope' of bangc; choose one of "),
        ("chek", "no command 'chek' of bangc; did you mean check? choose one of "),
        ("add.mlu", "no command 'add.mlu' of bangc; did you mean `mlusim bangc run add.mlu`? choose one of "),
    ):
        done = call("bangc", word)
        assert done.exit_code == 2
        assert told in done.stderr


def test_a_file_of_another_kind_is_no_text_to_compile(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(4))
    done = call("bangc", "run", str(tmp_path / "x.npy"))
    assert done.exit_code == 2
    assert "x.npy is not text: name a BANG C file" in done.stderr
