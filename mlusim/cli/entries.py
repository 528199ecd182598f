"""The operators of the command line, each as an `Entry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.operators import Draw, Entry, Options, TensorOption
from mlusim.cli.options import ELEMENT_TYPE, INTEGERS, SHAPE
from mlusim.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from mlusim.ops.operator import Operator

    Array = np.ndarray[Any, Any]

Shape = tuple[int, ...]
Chosen = tuple["Operator", dict[str, Any]]

_SHIFT_RANK = 4
_INPUT = TensorOption("input", "Any shape and element type.")
_INDEX = TensorOption("index", "int32 or int64; negative values count from the end.")


# tin_shift


def _tin_shift_options() -> list[click.Parameter]:
    return [
        click.Option(["--backward"], is_flag=True, help="The backward operator instead of the forward one."),
        click.Option(
            ["--rule"],
            type=click.Choice(["mluop", "adjoint"]),
            help="Backward only. mluop: as the vendor's, which is NOT the gradient; adjoint: the gradient. "
            "[default: mluop]",
        ),
    ]


def _groups_option() -> list[click.Parameter]:
    text = "With --shape: groups of channels, each with its shift. [default: 4, or what divides the channels]"
    return [click.Option(["--groups"], type=click.IntRange(min=1), metavar="G", help=text)]


def _choose_tin_shift(options: Options) -> Chosen:
    from mlusim.ops.tin_shift import BACKWARD, FORWARD

    if options["backward"]:
        return BACKWARD, {"sign": -1 if options["rule"] == "adjoint" else 1}
    if options["rule"] is not None:
        raise InputError(f"--rule {options['rule']} without --backward: the forward operator has one rule")
    return FORWARD, {}


def _random_tin_shift(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    if len(shape) != _SHIFT_RANK:
        raise InputError(f"--shape of rank {len(shape)}: tin_shift takes N,T,C,HW, such as 2,8,256,196")
    batch, time, channels, _ = shape
    groups = options["groups"] or next((g for g in (4, 3, 2) if channels % g == 0), 1)
    # Shifts of up to half the time, both ways: what is kept and what is vacated both matter.
    most = max(time // 2, 1)
    return [draw.elements(shape, dtype), draw.integers(-most, most + 1, (batch, groups))]


# reverse, flip, reverse_sequence


def _axis_list_option() -> list[click.Parameter]:
    text = "Axes to reverse: 0,2 or -1."
    return [click.Option(["--axis"], type=INTEGERS, required=True, metavar="AXES", help=text)]


def _choose_reverse(options: Options) -> Chosen:
    from mlusim.ops.reverse import REVERSE

    return REVERSE, {"axis": options["axis"]}


def _choose_flip(options: Options) -> Chosen:
    from mlusim.ops.reverse import FLIP

    return FLIP, {"axis": options["axis"]}


def _random_one(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    del options
    return [draw.elements(shape, dtype)]


def _sequence_options() -> list[click.Parameter]:
    return [
        _integer_option("--seq-axis", 1, "The axis that is reversed."),
        _integer_option("--batch-axis", 0, "The axis of the batch entries, one length each."),
    ]


def _choose_sequence(options: Options) -> Chosen:
    from mlusim.ops.reverse import REVERSE_SEQUENCE

    return REVERSE_SEQUENCE, {name: options[name] for name in ("seq_axis", "batch_axis")}


def _random_sequence(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    entries, most = (_extent(shape, options[name]) for name in ("batch_axis", "seq_axis"))
    return [draw.elements(shape, dtype), draw.integers(0, most + 1, (entries,))]


# gather, scatter


def _axis_option() -> list[click.Parameter]:
    return [_integer_option("--axis", 0, "The axis that the index chooses on.")]


def _nd_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--axes"],
            type=INTEGERS,
            metavar="AXES",
            help="Aligned: the axis that each coordinate chooses on, such as 0,2. [default: the first ones]",
        ),
        click.Option(
            ["--mode"],
            type=click.Choice(["aligned", "standard"]),
            default="aligned",
            show_default=True,
            help="aligned: as CINN's document; standard: as TensorFlow and ONNX.",
        ),
    ]


def _index_shape_option() -> list[click.Parameter]:
    text = "With --shape: shape of the index. [default: an index for each element, or row]"
    return [click.Option(["--index-shape"], type=SHAPE, metavar="SHAPE", help=text)]


def _choose_gather(options: Options) -> Chosen:
    from mlusim.ops.gather import GATHER

    return GATHER, {"axis": options["axis"]}


def _choose_scatter(options: Options) -> Chosen:
    from mlusim.ops.scatter import SCATTER

    return SCATTER, {"axis": options["axis"]}


def _choose_gather_nd(options: Options) -> Chosen:
    from mlusim.ops.gather import GATHER_ND

    return GATHER_ND, {"axes": options["axes"], "mode": options["mode"]}


def _choose_scatter_nd(options: Options) -> Chosen:
    from mlusim.ops.scatter import SCATTER_ND

    return SCATTER_ND, {"axes": options["axes"], "mode": options["mode"]}


def _random_gather(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    index_shape = shape if options["index_shape"] is None else options["index_shape"]
    index = draw.integers(0, _extent(shape, options["axis"]), index_shape)
    return [draw.elements(shape, dtype), index]


def _random_scatter(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    x, index = _random_gather(draw, shape, dtype, options)
    return [x, index, draw.elements(index.shape, dtype)]


def _random_gather_nd(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    import numpy as np

    index_shape = options["index_shape"]
    aligned = options["mode"] == "aligned"
    if index_shape is None:
        columns = len(options["axes"] or (0,))
        index_shape = (*shape, columns) if aligned else (*shape[:1], columns)
    if not index_shape or not shape:
        raise InputError("--index-shape: the last axis of the index holds the coordinates, so it has rank 1 or more")
    axes = (aligned and options["axes"]) or range(index_shape[-1])
    columns_drawn = [
        draw.integers(0, _extent(shape, axis), index_shape[:-1]) for axis in tuple(axes)[: index_shape[-1]]
    ]
    index = np.stack(columns_drawn, axis=-1) if columns_drawn else np.zeros(index_shape, np.int32)
    return [draw.elements(shape, dtype), index]


def _random_scatter_nd(draw: Draw, shape: Shape, dtype: Any, options: Options) -> list[Array]:
    x, index = _random_gather_nd(draw, shape, dtype, options)
    rest = () if options["mode"] == "aligned" else shape[index.shape[-1] :]
    return [x, index, draw.elements((*index.shape[:-1], *rest), dtype)]


# cast, bitcast_convert


def _dtype_option() -> list[click.Parameter]:
    text = "Element type of the result: float16, bfloat16, int8, ..."
    return [click.Option(["--dtype"], type=ELEMENT_TYPE, required=True, metavar="DTYPE", help=text)]


def _choose_cast(options: Options) -> Chosen:
    from mlusim.ops.cast import CAST

    return CAST, {"dtype": options["dtype"]}


def _choose_bitcast(options: Options) -> Chosen:
    from mlusim.ops.bitcast_convert import BITCAST_CONVERT

    return BITCAST_CONVERT, {"dtype": options["dtype"]}


def _integer_option(name: str, default: int, text: str) -> click.Option:
    return click.Option([name], type=int, default=default, show_default=True, metavar="AXIS", help=text)


def _extent(shape: Shape, axis: int) -> int:
    """Of an axis that may be out of range: the operator's own message says so better."""
    return shape[axis] if -len(shape) <= axis < len(shape) else 1


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="tin_shift",
            summary="Groups of channels move along time, each by its own shift; zeros move in.",
            tensors=(
                TensorOption("input", "[N, T, C, HW], float16 or float32."),
                TensorOption("shifts", "[N, G], int32: one shift for each batch entry and group of C / G channels."),
            ),
            options=_tin_shift_options,
            random_options=_groups_option,
            choose=_choose_tin_shift,
            random=_random_tin_shift,
            strategies="mlusim.planning.tin_shift",
            example="--input clip.npy --shifts shifts.npy --out shifted.npy --report reports/",
        ),
        Entry(
            name="reverse",
            summary="Elements in reverse order along the axes given.",
            tensors=(_INPUT,),
            options=_axis_list_option,
            choose=_choose_reverse,
            random=_random_one,
            strategies="mlusim.planning.reverse",
            example="--input x.npy --axis 0,2 --out y.npy",
        ),
        Entry(
            name="flip",
            summary="The same as reverse.",
            tensors=(_INPUT,),
            options=_axis_list_option,
            choose=_choose_flip,
            random=_random_one,
            strategies="mlusim.planning.reverse",
            example="--shape 64,1024 --dtype float16 --axis -1 --explain",
        ),
        Entry(
            name="reverse_sequence",
            summary="The first elements of each batch entry in reverse order, as many as its length says.",
            tensors=(_INPUT, TensorOption("seq_lengths", "One int32 or int64 for each batch entry.")),
            options=_sequence_options,
            choose=_choose_sequence,
            random=_random_sequence,
            strategies="mlusim.planning.reverse_sequence",
            example="--input x.npy --seq-lengths lengths.npy --seq-axis 1 --out y.npy",
        ),
        Entry(
            name="gather",
            summary="Elements chosen along an axis by an index of the same rank.",
            tensors=(_INPUT, _INDEX),
            options=_axis_option,
            random_options=_index_shape_option,
            choose=_choose_gather,
            random=_random_gather,
            strategies="mlusim.planning.gather",
            example="--input x.npy --index i.npy --axis 1 --out y.npy",
        ),
        Entry(
            name="gather_nd",
            summary="Elements or rows chosen by tuples of coordinates.",
            tensors=(_INPUT, _INDEX),
            options=_nd_options,
            random_options=_index_shape_option,
            choose=_choose_gather_nd,
            random=_random_gather_nd,
            strategies="mlusim.planning.gather",
            example="--input x.npy --index i.npy --mode standard --out y.npy",
        ),
        Entry(
            name="scatter",
            summary="A copy with elements replaced along an axis by an index; the last of equal places wins.",
            tensors=(_INPUT, _INDEX, TensorOption("src", "The new elements, of the input's element type.")),
            options=_axis_option,
            random_options=_index_shape_option,
            choose=_choose_scatter,
            random=_random_scatter,
            strategies="mlusim.planning.scatter",
            example="--input x.npy --index i.npy --src s.npy --axis 1 --out y.npy",
        ),
        Entry(
            name="scatter_nd",
            summary="A copy with elements or rows replaced by tuples of coordinates; the last of equal places wins.",
            tensors=(_INPUT, _INDEX, TensorOption("src", "The new elements, of the input's element type.")),
            options=_nd_options,
            random_options=_index_shape_option,
            choose=_choose_scatter_nd,
            random=_random_scatter_nd,
            strategies="mlusim.planning.scatter",
            example="--input x.npy --index i.npy --src s.npy --mode standard --out y.npy",
        ),
        Entry(
            name="cast",
            summary="Every element converted to another type.",
            tensors=(_INPUT,),
            options=_dtype_option,
            choose=_choose_cast,
            random=_random_one,
            strategies="mlusim.planning.flat",
            example="--input x.npy --dtype float16 --out y.npy",
            random_dtype="input_dtype",
        ),
        Entry(
            name="bitcast_convert",
            summary="The same bytes as elements of another type.",
            tensors=(_INPUT,),
            options=_dtype_option,
            choose=_choose_bitcast,
            random=_random_one,
            strategies="mlusim.ops.bitcast_convert",
            example="--input x.npy --dtype int32 --out y.npy",
            random_dtype="input_dtype",
        ),
    )
}
