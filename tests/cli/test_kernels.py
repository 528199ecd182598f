"""`mlusim run|verify|compare|tune|sweep FILE.py:KERNEL`."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from command_line import output_of
from mlusim.cli.kernel_completion import kernel_names

KERNELS = """\
def expected(x, y):
    return x + y


def wrong(x, y):
    return x - y


async def add(core, x, y, out, tile=1024):
    if core.is_memory_core:
        return
    a = core.nram.alloc(tile, x.dtype)
    b = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        n = min(tile, x.size - start)
        await core.memcpy(a[:n], x[start : start + n])
        await core.memcpy(b[:n], y[start : start + n])
        core.add(a[:n], a[:n], b[:n])
        await core.sync()
        await core.memcpy(out[start : start + n], a[:n])


async def racy(core, x, y, out):
    if core.is_memory_core or core.task_id:
        return
    a = core.nram.alloc(x.shape, x.dtype)
    b = core.nram.alloc(x.shape, x.dtype)
    core.memcpy_async(a, x)
    core.memcpy_async(b, y)
    core.add(a, a, b)
    await core.sync()
    await core.memcpy(out, a)


async def subtract(core, x, y, out):
    if core.is_memory_core or core.task_id:
        return
    a = core.nram.alloc(x.shape, x.dtype)
    b = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(a, x)
    await core.memcpy(b, y)
    core.sub(a, a, b)
    await core.sync()
    await core.memcpy(out, a)


def launch(device, shape, dtype, tile=1024):
    tensors = [device.alloc(shape, dtype, name) for name in ("x", "y", "out")]
    device.launch(add, *tensors, tile)
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(KERNELS)
    np.save(tmp_path / "x.npy", np.arange(5000, dtype=np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = ("--arg", "x=x.npy", "--arg", "y=x.npy", "--arg", "out=float32:5000")


def test_run_reads_files_and_writes_the_result(home):
    text = output_of("run", "k.py:add", *FILES, "--out", "sum.npy", "--check")
    assert np.array_equal(np.load("sum.npy"), 2 * np.load("x.npy"))
    assert "add of k.py:add on mlu370-x4" in text
    assert "add on mlu370-x4: sound" in text
    assert "wrote sum.npy: float32 [5000]" in text


@pytest.mark.slow
def test_run_as_json_with_settings_launch_and_report(home):
    words = ("--set", "tile=512", "--dim", "4,2,1", "--kind", "union1", "--json", "--report", "r", "--sensitivity")
    found = json.loads(output_of("run", "k.py:add", "--shape", "5000", *words))
    assert found["operator"] == "add"
    assert found["launches"][0]["dim"] == [4, 2, 1]
    assert "dma_read_latency_ps" in {swing["field"] for swing in found["sensitivity"]}
    assert (home / "r" / "report.html").stat().st_size > 1000
    other = json.loads(output_of("run", "k.py:add", "--shape", "5000", "--json", "--no-data"))
    assert other["peak_nram_bytes"] == 2 * 4096
    assert found["peak_nram_bytes"] == 2 * 2048


def test_a_file_with_one_kernel_needs_no_name(home):
    (home / "one.py").write_text(KERNELS.partition("async def racy")[0])
    assert "add of one.py" in output_of("run", "one.py", "--shape", "100")
    assert output_of("run", "k.py", "--shape", "100", code=2).startswith(
        "error: k.py: name the kernel, an `async def`, as in k.py:add; it has add, racy, subtract"
    )


def test_the_shape_of_one_tensor_is_an_argument(home):
    text = output_of("run", "k.py:add", "--shape", "100", "--shape", "out=10,2", code=2)
    assert "'out=10,2' names a tensor, but --shape is that of all tensors without --arg" in text
    assert "for an output pass --arg out=float32:10,2, for a random input --arg out=random:float32:10,2" in text


def test_a_coding_line_gives_the_encoding_of_a_kernel_file(home):
    text = KERNELS.replace("core.add(a[:n], a[:n], b[:n])", "core.add(a[:n], a[:n], b[:n])  # 加法")
    (home / "zh.py").write_bytes(f"# coding: gbk\n{text}".encode("gbk"))
    assert "add of zh.py" in output_of("run", "zh.py:add", *FILES, "--report", "r")
    assert "加法" in (home / "r" / "report.html").read_text(encoding="utf-8")
    assert "  add(x, y, out, tile=1024)" in output_of("compile", "zh.py")
    assert kernel_names("zh.py") == ["add", "racy", "subtract"]
    (home / "zh.py").write_bytes(text.encode("gbk"))
    assert "zh.py cannot be decoded ('utf-8' codec" in output_of("compile", "zh.py", code=1)


def test_a_function_that_launches_kernels_can_be_run(home):
    text = output_of("run", "k.py:launch", "--shape", "5000", "--set", "tile=256", "--no-data")
    assert "launch of k.py:launch" in text
    assert "give --shape and --set, no --arg" in output_of("run", "k.py:launch", *FILES, code=2)


def test_verify_finds_races_and_wrong_results(home):
    files = ("-o", "out=sum.npy", "--save-run", "a.mlusim", "--csv", "a.csv", "--report", "r")
    text = output_of("verify", "k.py:add", *FILES, "--reference", "k.py:expected", *files)
    assert text.startswith("add on mlu370-x4: sound")
    assert "wrote sum.npy: float32 [5000]" in text
    assert all((home / name).stat().st_size for name in ("sum.npy", "a.mlusim", "a.csv", "r/report.html"))
    text = output_of("verify", "k.py:racy", "--shape", "1000", code=1)
    assert "before memcpy is known to have written it" in text
    text = output_of("verify", "k.py:add", "--shape", "1000", "--reference", "k.py:wrong", code=1)
    assert "error" in text
    np.savez("two.npz", out=np.load("sum.npy"), other=np.zeros(1))
    words = ("verify", "k.py:add", *FILES, "--reference", "two.npz")
    assert "the reference names ['other'], which are not outputs" in output_of(*words, code=2)
    found = json.loads(output_of("verify", "k.py:add", *FILES, "--reference", "sum.npy", "--json"))
    assert found["ok"] is True


def test_run_with_a_check_that_fails_prints_the_findings_as_verify_does(home):
    (home / "src").mkdir()
    (home / "k.py").rename("src/k.py")
    run = json.loads(output_of("run", "src/k.py:racy", "--shape", "1000", "--check", "--json", code=1))
    verified = json.loads(output_of("verify", "src/k.py:racy", "--shape", "1000", "--json", code=1))
    assert run["provenance"].pop("command").startswith("mlusim run ")
    assert verified["provenance"].pop("command").startswith("mlusim verify ")
    assert run == verified
    assert run["format"] == "mlusim-verification/1"
    assert not run["ok"]
    assert {site["file"] for finding in run["findings"] for site in finding["sites"]} == {"src/k.py"}


def test_verify_takes_an_operator(home):
    words = ("verify", "cast", "--shape", "64", "--dtype", "int8")
    assert "cast on mlu370-x4: sound" in output_of(*words)
    files = {line["file"] for line in json.loads(output_of(*words, "--json"))["verification"]["traffic"]}
    assert files == {"cast.py"}


def test_a_sweep_names_argument_files_without_folders(home):
    words = ("--arg", f"x={home / 'x.npy'}", "--arg", home / "x.npy", "--arg", "out=float32:5000")
    found = output_of("sweep", "k.py:add", *words, "--no-db", "-j", "0", "--json")
    assert json.loads(found)["rows"][0]["arguments"] == "x=x.npy x.npy out=float32:5000"
    assert str(home) not in found


def test_compare_takes_settings_boards_and_kernels(home):
    words = ("--shape", "5000", "--set", "tile=512,1024", "--device", "mlu370-x4,mlu590-h8")
    text = output_of("compare", "k.py:add", *words)
    for name in ("\ndevice, settings    ", "mlu370-x4, tile=512", "mlu590-h8, tile=1024"):
        assert name in text
    assert "All 4 results are equal, bit for bit." in text
    assert max(map(len, text.splitlines())) <= 80
    steady = output_of("compare", "k.py:add", *words, "--steady", "--no-data")
    assert "Timing only: results were not compared." in steady
    assert "nothing is computed; add --no-data\n" in output_of("compare", "k.py:add", *words, "--steady", code=2)
    wrong = output_of("compare", "k.py:add", "k.py:subtract", "--shape", "1000", code=1)
    assert "'add' and 'subtract' differ in 1 000 of 1 000 elements" in wrong
    names = output_of("compare", "k.py:add,k.py:subtract", "--shape", "1000", code=2)
    assert "error: k.py:add,k.py:subtract is 2 kernels: separate them by spaces for `mlusim compare`" in names
    found = json.loads(output_of("compare", "k.py:add", "--shape", "1000", "--set", "tile=256,512", "--json"))
    assert [row["strategy"] for row in found["strategies"]] == ["tile=256", "tile=512"]


def test_compare_tells_functions_of_one_name_in_two_files_apart(home):
    wrong = (home / "k.py").read_text().replace("def add(", "def sum_up(").replace("def subtract(", "def add(")
    (home / "other.py").write_text(wrong)
    assert "'k.py:add' and 'other.py:add' differ in 1 000 of 1 000 elements" in output_of(
        "compare", "k.py:add", "other.py:add", "--shape", "1000", code=1
    )


def test_tune_prints_a_command_that_reproduces_the_best_time(home):
    words = ("--shape", "200000", "--set", "tile=256..4096*4", "--workers", "0")
    text = output_of("tune", "k.py:add", *words)
    assert max(map(len, text.splitlines()[:8])) <= 80
    assert re.search(r"^the best takes \S+ x the lower bound of ", text, re.MULTILINE)
    found = json.loads(output_of("tune", "k.py:add", *words, "--json"))
    times = [found["best"]["time_ps"], *(row["time_ps"] for row in found["runners_up"])]
    assert len(times) == 3
    assert times == sorted(times)
    command = found["command"].split()
    assert command[:3] == ["mlusim", "run", "k.py:add"]
    assert json.loads(output_of(*command[1:], "--json"))["time_ps"] == times[0]


def test_sweep_takes_arguments_and_names_them(home):
    words = ("--no-db", "--workers", "0", "--json")
    found = json.loads(output_of("sweep", "k.py:add", *FILES, "--set", "tile=512,1024", *words))
    assert [row["tile"] for row in found["rows"]] == [512, 1024]
    alone = json.loads(output_of("run", "k.py:add", *FILES, "--set", "tile=512", "--json"))
    assert found["rows"][0]["time_ps"] == alone["time_ps"]


def test_a_sweep_detects_changed_input_files(home):
    words = ("sweep", "k.py:add", *FILES, "--db", "s.sqlite", "--workers", "0")
    output_of(*words)
    assert "1 of them from before" in output_of(*words)
    np.save("x.npy", np.ones(5000, np.float32))
    assert "from before" not in output_of(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "gone.py:add"), "gone.py: no such file"),
        (("compare", "add.py:add", "add.py:add", "--shape", "64"), "add.py:add is named twice: name each kernel once"),
        (("run", "latin.py:add"), "latin.py cannot be decoded ('utf-8' codec can't decode byte 0xe9 in position 44"),
        (
            ("run", "unknown.py:add"),
            "unknown.py cannot be decoded (unknown encoding: nothing): save it as UTF-8, or name",
        ),
        (("run", "k.py:nothing"), "has no function 'nothing': it has expected, wrong, add"),
        (
            ("run", "k.py:add", "--arg", "x=x.npy"),
            "add: no argument for y and out; give --shape for random tensors",
        ),
        (("run", "k.py:add", *FILES, "--set", "tle=4"), "--set tle: add has no such parameter with a default; did you"),
        (("run", "k.py:add", *FILES, "--set", "tile=4,8"), "--set tile: one value for one run"),
        (("run", "k.py:add", *FILES, "--out", "z=y.npy"), "--out z: the kernel has no such output; it has out"),
        (("run", "k.py:add", *FILES, "--out", "y.npy", "--no-data"), "--out with --no-data: there is no result"),
        (("run", "k.py:add", "--max-operations", "x"), "'--max-operations': 'x' is not a valid integer; see "),
        (("verify", "k.py:add", "--tolerance", "x"), "'--tolerance': 'x' is not a valid float; see "),
        (("tune", "k.py:add", "--shape", "8", "--set", "tile=1..8"), "tile: '1..8' has no step: write 1..8*2, where "),
        (("verify", "x.npy"), "x.npy is a file, and no kernel: write FILE.py:KERNEL or FILE.mlu:ENTRY; a saved run is"),
        (("run", "nothing"), "no operator 'nothing'; choose one of bitcast_convert"),
        (("sweep", "cast", "--arg", "8"), "no such option '--arg'"),
    ],
)
def test_every_mistake_is_reported_in_one_line(home, words, message):
    (home / "latin.py").write_bytes(b"async def add(core, x, y, out):\n    pass\n\n# \xe9")
    (home / "unknown.py").write_text("# coding: nothing\nasync def add(core, x, y, out):\n    pass\n")
    text = output_of(*words, code=2)
    assert message.lower() in " ".join(text.split()).lower()


@pytest.mark.parametrize("command", ["run", "verify", "compare", "tune", "sweep"])
def test_help_lists_the_options_of_a_kernel(command):
    text = output_of(command, "--help")
    assert "OPERATOR|FILE:KERNEL" in text
    for option in ("--arg", "--set", "--dim", "--kind"):
        assert option in text
    assert output_of(command, code=2).startswith(f"Usage: mlusim {command}")


def test_a_kernel_adds_to_values_from_a_file(home):
    """Neither a new output, which holds no values, nor an input, which is not written, as the messages say."""
    (home / "bins.py").write_text(
        "async def bins(core, x, out):\n"
        "    if core.is_memory_core:\n        return\n"
        "    ones = core.nram.alloc(x.shape, x.dtype)\n"
        "    await core.memcpy(ones, x)\n"
        "    await core.atomic_reduce_add(out, ones)\n"
    )
    before, x = np.arange(64, dtype=np.int32), np.ones(64, np.int32)
    np.save(home / "before.npy", before)
    np.save(home / "ones.npy", x)
    np.save(home / "after.npy", before + 4 * x)
    words = ("verify", "bins.py:bins", "--dim", "4", "--arg", "x=ones.npy", "--arg")
    assert "pass `--arg out=inout:FILE.npy`, a file of zeros; or" in output_of(*words, "out=int32:64", code=1)
    assert "--arg out=DTYPE:SHAPE, or --arg out=inout:FILE.npy for values before the run" in " ".join(
        output_of(*words, "out=before.npy", code=1).split()
    )
    told = output_of(*words, "out=before.npy", "--reference", "after.npy", code=2)
    assert "a reference, and no argument is an output" in told
    output_of(*words, "out=inout:before.npy", "--reference", "after.npy")


def test_csv_has_a_line_per_operation(home):
    words = ("run", "k.py:add", "--shape", "5000", "--csv", "operations.csv")
    assert "wrote operations.csv: 25 operations" in output_of(*words)
    lines = (home / "operations.csv").read_text().splitlines()
    assert len(lines) == 1 + 25
    assert lines[1].startswith("memcpy,")
    output_of(*words, "-q")
    output_of("run", "flip", "--shape", "4,4", "--axis", "0", "--csv", "operations.csv", "-q")
    refused = output_of("run", "k.py:add", "--shape", "5000", "--csv", "x.npy", code=2)
    assert "--csv x.npy already exists" in refused


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", *FILES, "--set", "tile=512", "--set", "tile=256"), "tile has a value already; several values are one"),
        (("sweep", "--shape", "64", "--vary", "tile=1,2"), "tile is a parameter of the kernel; write --set tile=1,2"),
    ],
)
def test_a_misplaced_setting_suggests_the_right_option(home, words, told):
    assert told in output_of(words[0], "k.py:add", *words[1:], code=2)


WRONG = [
    (("--kind", "union3"), "'UNION3' is not a task type; choose one of BLOCK, UNION1, UNION2, UNION4, UNION8, UNION16"),
    (("--dim", "4,8,1,1"), "'4,8,1,1' is not a grid: one to three extents from 1 to 65535, such as 4,8,1"),
    (("--dim", "0"), "'0' is not a grid: one to three extents from 1 to 65535, such as 4,8,1"),
]


@pytest.mark.parametrize("command", ["run", "verify", "compare", "tune", "sweep"])
@pytest.mark.parametrize(("words", "message"), WRONG)
def test_an_invalid_launch_is_a_usage_error_in_every_command(home, command, words, message):
    assert message in output_of(command, "k.py:add", "--shape", "5000", *words, code=2)


@pytest.mark.parametrize("command", ["run", "verify", "compare", "tune"])
def test_a_setting_given_as_an_option_names_the_option_that_sets_it(home, command):
    text = output_of(command, "k.py:add", "--shape", "5000", "--tile", "8", code=2)
    assert "No such option '--tile'" in text
    assert "; tile is a parameter of the kernel: --set tile=VALUE; see `mlusim" in text


@pytest.mark.parametrize("command", ["run", "verify", "compare"])
def test_a_launch_too_large_for_the_board_is_an_input_error(home, command):
    text = output_of(command, "k.py:add", "--shape", "5000", "--dim", "6,1,1", code=2)
    assert "add: dim.x = 6 for UNION1: it must be a multiple of 4 (4 cores x 1 cluster); try 8" in text


def test_a_launch_too_large_for_the_board_is_a_failed_sweep_point(home):
    words = ("sweep", "k.py:add", "--shape", "5000", "--dim", "6,1,1", "--no-db", "--workers", "0")
    assert "the point is impossible: add: dim.x = 6" in output_of(*words, code=1)
    assert "1 done, 1 impossible" in output_of(*words, "--dim", "8,1,1")


def test_a_board_given_as_an_argument_suggests_device_option(home):
    output_of("run", "k.py:add", "--shape", "5000", "--save-run", "r.zip", "-q")
    for words in ("retime r.zip", "run k.py:add --shape 5000", "run flip --shape 4 --axis 0"):
        text = output_of(*words.split(), "mlu590-h8", code=2)
        assert "unexpected extra argument (mlu590-h8); a board is named by an option: --device mlu590-h8; see" in text
    assert "--device" not in output_of("retime", "r.zip", "again.zip", code=2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sweep", "k.py:add", "--shape", "64", "--csv", "t.csv"), "; -o FILE.csv writes the table; see `mlusim sweep"),
        (("sweep", "flip", "--shape", "64", "--csv", "t.csv"), "; -o FILE.csv writes the table; see `mlusim sweep"),
        (("tune", "k.py:add", "--shape", "64", "--csv", "t.csv"), "; --json prints all rows; see `mlusim tune"),
        (
            ("run", "k.py:add", "--shape", "64", "--trace", "t"),
            "'--trace'; --report DIR writes DIR/trace.json; see `mlusim",
        ),
        (("bangc", "run", "k.mlu", "--trace", "t"), "'--trace'; --report DIR writes DIR/trace.json; see `mlusim bangc"),
        (("run", "k.py:add", "--shape", "64", "--grid", "4"), "No such option '--grid'. Did you mean '--dim'?; see"),
        (("verify", "k.py:add", "--shape", "64", "--board", "x"), "Did you mean '--device'?; see"),
        (("run", "cast", "--shape", "64", "--to", "int8"), "No such option '--to'. Did you mean '--dtype'?; see"),
        (
            ("sweep", "flip", "--set", "axis=0"),
            "No such option '--set'; --set is for the parameters of a kernel, and flip is",
        ),
        (("run", "gather", "--indices", "i.npy"), "No such option '--indices'. Did you mean '--index'?; see"),
        (("explain", "k.py:add", "--shape", "64"), '; a run is one argument, in quotes: mlusim explain "k.py:add --sh'),
        (
            ("diff", "flip", "--shape", "64", "r.zip"),
            '; a run is one argument, in quotes: mlusim diff "flip --shape ..."',
        ),
    ],
)
def test_an_option_of_another_command_suggests_what_to_write(home, words, told):
    assert told in output_of(*words, code=2)
    assert output_of("explain", "r.zip", "--ful", code=2).count(";") == 1, "a misspelt option has no other remedy"


def test_compare_names_the_variant_that_fails(home):
    text = output_of("compare", "k.py:add", "--shape", "5000", "--set", "tile=256,1000000", code=1)
    assert text.startswith("error: tile=1000000: task 0 (cluster 0, core 0), k.py:")
