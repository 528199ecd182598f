"""Compiled kernels are kept in the user's home; without one that can be written, in a temporary folder."""

import errno
import gc
import os
import sys
from pathlib import Path

import pytest

from mlusim import bangc
from mlusim.bangc.calls import intrinsics
from mlusim.bangc.compiler import cache, translation
from mlusim.bangc.compiler.rewriting import rewrite
from mlusim.bangc.compiler.source import text_of_user
from mlusim.errors import InputError


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache.cache_folder.cache_clear()
    yield
    cache.cache_folder.cache_clear()


def no_home():
    raise RuntimeError("Could not determine home directory.")


def test_a_home_that_can_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache.cache_folder() == tmp_path / "home" / ".cache" / "mlusim" / "bangc"


def test_no_home(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", no_home)
    assert cache.cache_folder().parent == tmp_path


def test_a_home_of_another_user(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr(os, "access", lambda folder, mode: mode != os.W_OK)
    assert cache.cache_folder().parent == tmp_path


def test_a_full_disk_names_the_folder(monkeypatch, tmp_path):
    def full(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(cache, "atomic_write", full)
    folder = cache.cache_folder()
    with pytest.raises(
        InputError, match=f"^{folder}, the folder of compiled kernels, cannot be written: No space left"
    ):
        cache.publish(folder / "kernel.so", b"")


def test_the_text_of_the_user_is_the_same_in_any_folder(tmp_path):
    preprocessed = """# 0 "{0}/k.mlu"
# 0 "<command-line>"
# 1 "/usr/include/stdc-predef.h" 1 3 4
extern int system;
# 0 "<command-line>" 2
#pragma GCC pch_preprocess "{0}/mlusim_start.h.gch"
# 1 "{1}/mlu.h" 1
extern int header;
# 1 "{0}/k.mlu" 2
int first;
# 1 "{0}/own.h" 1
#pragma pack(1)
int second;
# 3 "{0}/k.mlu" 2
int third;
"""
    for folder in (tmp_path, tmp_path / "other"):
        text = text_of_user(preprocessed.format(folder, cache.INCLUDE))
        assert text == "int first;\n#pragma pack(1)\nint second;\nint third;\n"


@pytest.mark.slow
def test_a_file_that_has_not_changed_is_not_translated_again(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    file = tmp_path / "kernel.mlu"
    file.write_text("#include <bang.h>\n__mlu_entry__ void kernel(float *x) { x[taskId] = 2; __bang_unknown(x); }\n")
    first = bangc.compile(file)
    rewritten = []
    monkeypatch.setattr(translation, "rewrite", lambda text, *rest: rewritten.append(text) or rewrite(text, *rest))
    again = bangc.compile(file)
    assert not rewritten
    assert again.entries == first.entries == ["kernel"]
    assert again.missing == first.missing == {"__bang_unknown": (str(file), 2)}
    assert again.binary == first.binary
    first.binary.unlink()
    assert bangc.compile(file).binary.exists()
    assert len(rewritten) == 1
    file.write_text(file.read_text().replace("= 2", "= 3"))
    assert bangc.compile(file).binary != first.binary
    assert len(rewritten) == 2


def test_the_key_covers_every_module_that_writes_declarations():
    called = set()
    for function in (intrinsics.intrinsics, intrinsics.names, intrinsics._numbers):
        function.cache_clear()
    # Otherwise the collector may call finalizers of other tests' devices here.
    gc.collect()
    gc.disable()
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        intrinsics.declarations(intrinsics.names())
    finally:
        sys.setprofile(None)
        gc.enable()
    package = Path(bangc.__file__).parent.parent
    modules = {Path(name) for name in called if Path(name).is_relative_to(package)}
    assert Path(intrinsics.__file__) in modules
    assert modules <= set(intrinsics.sources_of_declarations())
