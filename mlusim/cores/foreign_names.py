"""Names of other kernel languages, and what a kernel of mlusim uses instead, for messages about unknown names.

The languages are NumPy, torch, CUDA, Triton, Pallas, Ascend C and NKI. A name is looked up in lower case and without
underscores, so that `DataCopy` and `data_copy` are one entry.
"""

from __future__ import annotations

# Instructions and attributes of a core.
_INSTRUCTIONS = {
    "abs": ("absolute",),
    "active_gelu": ("gelu",),
    "active_sigmoid": ("sigmoid",),
    "add": ("adds", "tensorscalar", "tensortensor"),
    "and_": ("logicaland",),
    "atomic_reduce_add": ("atomicadd",),
    "atomic_reduce_cas": ("atomiccas",),
    "atomic_reduce_max": ("atomicmax",),
    "atomic_reduce_min": ("atomicmin",),
    "band": ("bitwiseand",),
    "bnot": ("bitwisenot", "invert"),
    "bor": ("bitwiseor",),
    "bxor": ("bitwisexor",),
    "convert": ("astype", "cast"),
    "div": ("divide", "divs", "truedivide"),
    "eq": ("equal",),
    "fill": ("duplicate", "full", "fulllike", "memset", "ones", "oneslike"),
    "ge": ("greaterequal",),
    "gt": ("greater",),
    "incseq": ("arange", "iota"),
    "integral": ("cumsum",),
    "le": ("lessequal",),
    "load": ("read",),
    "lt": ("less",),
    "mask_select": ("where",),
    "matmul": ("dot", "dotgeneral", "mma", "mmad", "wgmma", "wmma"),
    "max": ("reducemax",),
    "memcpy": ("copy", "copyin", "copyout", "copyto", "datacopy", "dma", "dmacopy", "memcpysync", "tensorcopy"),
    "memcpy_async": ("asynccopy", "copyasync", "cpasync", "dmastart", "makeasynccopy", "memcpyasync"),
    "memcpy_rows": ("take",),
    "min": ("reducemin",),
    "mul": ("multiply", "muls"),
    "ne": ("notequal",),
    "neg": ("negative",),
    "not_": ("logicalnot",),
    "nram": ("alloc", "alloctensor", "local", "nramalloc", "psum", "registers", "sbuf", "smem", "ub", "vmem"),
    "or_": ("logicalor",),
    "pow": ("power",),
    "pow2": ("exp2",),
    "recip": ("reciprocal",),
    "relu": ("activerelu",),
    "round": ("rint",),
    "sll": ("leftshift", "shiftleft"),
    "sram": ("clustershared", "shared"),
    "srl": ("rightshift", "shiftright"),
    "store": ("write",),
    "sub": ("subs", "subtract"),
    "sync": ("fence", "membar", "pipebarrier", "setflag", "syncwarp", "threadfence", "wait", "waitflag"),
    "sync_all": ("gridsync", "syncgrid"),
    "sync_cluster": ("barrier", "clusterbarrier", "debugbarrier", "syncblock", "syncthreads"),
    "sync_io": ("commitgroup", "cpasyncwaitall", "cpasyncwaitgroup", "waitall", "waitgroup"),
    "task_dim": ("blockdim", "blocknum", "getblocknum", "griddim", "numcores", "numprograms", "numtasks", "tasknum"),
    "task_id": ("blockidx", "getblockidx", "getprogramid", "programid", "threadid", "threadidx", "tid"),
    "transpose": ("permute", "trans"),
    "write_zero": ("zeros", "zeroslike"),
}
_INSTRUCTION_OF = {foreign: name for name, others in _INSTRUCTIONS.items() for foreign in others}

_HOST = (
    "a kernel allocates in core.nram, core.sram, core.wram and core.ldram; tensors in GDRAM are arguments of the "
    "kernel, which the host makes: mlusim.Output(shape, dtype) or Device.alloc"
)
_MODULE = "instructions are methods of core itself, such as core.memcpy(dst, src) and core.add(dst, a, b)"
_VIEWS = (
    "a view has this as a method that copies nothing: view.reshape(...), view.transpose(...), view.broadcast_to(...)"
)
_QUEUES = "a buffer needs no queue: reuse it after `await core.sync()`, or allocate it inside `with core.nram.scope()`"
# Names that no single instruction replaces.
_ADVICE = {
    **dict.fromkeys(("gdram", "dram", "malloc", "empty", "emptylike", "globalmemory"), _HOST),
    **dict.fromkeys(("isa", "language", "nc", "nisa", "nl", "pl", "pltpu", "tl"), _MODULE),
    **dict.fromkeys(("broadcast", "broadcastto", "expanddims", "reshape", "unsqueeze", "view"), _VIEWS),
    **dict.fromkeys(("deque", "enque", "freetensor"), _QUEUES),
    **dict.fromkeys(
        ("affinerange", "foriloop", "forloop", "range", "sequentialrange", "staticrange"), "write Python's own loop"
    ),
    **dict.fromkeys(("cond", "when"), "write Python's own `if`"),
    **dict.fromkeys(("clamp", "clip"), "core.maximum(dst, src, low), then core.minimum(dst, dst, high)"),
    **dict.fromkeys(
        ("clock", "clock64", "getsystemcycle", "globaltimer", "now", "time", "timens", "timeps", "timeus"),
        "no instruction reads the clock; `print(core)` shows the simulated time, and the report that of every line",
    ),
    "cdiv": "scalar arithmetic is Python's: -(-a // b)",
    "fma": "core.mul(dst, a, b), then core.add(dst, dst, c)",
    "mean": "core.sum, then core.mul by 1 / n",
    **dict.fromkeys(
        ("argsort", "sort", "topk"),
        "there is no sort instruction: take the largest element repeatedly with core.max, and replace it with -inf by "
        "core.store",
    ),
    **dict.fromkeys(
        ("deviceprint", "print", "printf"), "`print(core, view)` shows the task, the simulated time and the values"
    ),
    "softmax": "core.max, core.sub, core.exp, core.sum and core.div, one after the other",
    **dict.fromkeys(("silu", "swish"), "core.active_sigmoid(dst, src), then core.mul(dst, dst, src)"),
}


_ALL_ELEMENTS = (
    "it computes on all elements: loop over the rows, or reduce the first axis by core.sum_rows, core.max_rows or "
    "core.min_rows"
)
_NO_MASK = "there is no mask: slice the views, as in tile[:n], or blend by core.mask_select(dst, mask, a, b)"
_NO_SUM = "the product replaces dst: write it to another buffer, then core.add(sum, sum, dst)"
# Arguments that an instruction of another language has.
_ARGUMENTS = {
    **dict.fromkeys(("axes", "axis", "dim", "keepdim", "keepdims"), _ALL_ELEMENTS),
    **dict.fromkeys(("boundary_check", "mask", "other", "pred"), _NO_MASK),
    **dict.fromkeys(("acc", "accumulate", "accumulator"), _NO_SUM),
    **dict.fromkeys(
        ("dtype", "out_dtype", "preferred_element_type"),
        "types are those of the views; core.convert(dst, src) converts",
    ),
    "out": "the result is the first argument, dst",
}


def argument_advice(name: str) -> str:
    """Return what replaces an argument that an instruction does not have, as a clause of a message."""
    return _ARGUMENTS.get(name, "call it as shown")


def replacement(name: str) -> str:
    """Return what a kernel uses instead of a name of another language, as a clause of a message; "" if unknown."""
    lowercase_name = name.replace("_", "").lower()
    if instruction := _INSTRUCTION_OF.get(lowercase_name):
        return f"did you mean {instruction}?"
    return _ADVICE.get(lowercase_name, "")
