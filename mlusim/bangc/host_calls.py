"""The functions of CNRT and CNDRV that host code may call: how many arguments each takes, what it gives."""

from __future__ import annotations

from collections.abc import Callable

from mlusim.hardware import Board

_STATUS = """
cnrtMalloc 2|cnrtFree 1|cnrtHostMalloc 2|cnrtFreeHost 1|cnrtMallocConstant 2|cnrtMemset 3|cnrtMemsetAsync 4
cnrtMemsetD8 3|cnrtMemsetD32 3
cnrtMemcpy 4|cnrtMemcpyAsync 5|cnrtMemcpyAsync_V2 5|cnrtMemcpyPeer 5|cnrtMemGetInfo 2
cnrtQueueCreate 1|cnrtQueueCreateWithPriority 3|cnrtQueueDestroy 1|cnrtQueueSync 1|cnrtQueueQuery 1|cnrtSyncDevice 0
cnrtQueueWaitNotifier 3
cnrtNotifierCreate 1|cnrtNotifierCreateWithFlags 2|cnrtNotifierDestroy 1|cnrtPlaceNotifier 2|cnrtWaitNotifier 1
cnrtQueryNotifier 1|cnrtNotifierDuration 3|cnrtNotifierElapsedTime 3
cnrtSetDevice 1|cnrtGetDevice 1|cnrtGetDeviceCount 1|cnrtGetDeviceProperties 2|cnrtDeviceGetAttribute 3|cnrtInit 1
cnrtDestroy 0|cnrtGetDeviceHandle 2|cnrtSetCurrentDevice 1|cnrtGetLastError 0|cnrtPeekAtLastError 0
cnrtRuntimeGetVersion 1|cnrtGetLibVersion 3|cnrtDeviceReset 0|cnrtCreateQueue 1
cnrtDestroyQueue 1|cnrtSyncQueue 1|cnrtCreateNotifier 1|cnrtDestroyNotifier 1
cnrtMallocHost 2|cnrtQueryQueue 1|cnrtCastDataType_V2 7|cnrtCastDataType 6|cnrtConvertFloatToHalf 2
cnrtConvertHalfToFloat 2|cnrtQueueCreateWithFlags 2|cnrtHostMallocWithFlags 3
"""
_DRIVER = """
cnInit 1|cnDeviceGet 2|cnDeviceGetAttribute 3|cnDeviceGetCount 1|cnCtxGetCurrent 1|cnCtxGetDevice 1|cnCtxCreate 3
cnGetCtxMaxParallelUnionTasks 3|cnGetCtxConfigParam 3|cnCtxGetConfigParam 3|cnQueueSync 1|cnInvokeKernel 9
cnInvokeKernelEx 3|cnCtxDestroy 1|cnCtxSetCurrent 1|cnDeviceGetName 3|cnGetVersion 1|cnGetErrorString 2
cnQueueIsCapturing 2
"""

# Functions that do what another one does.
SAME = {
    **dict.fromkeys(("cnrtSyncQueue", "cnrtQueueQuery", "cnrtQueryQueue", "cnQueueSync"), "cnrtQueueSync"),
    **dict.fromkeys(("cnrtCreateQueue", "cnrtQueueCreateWithPriority", "cnrtQueueCreateWithFlags"), "cnrtQueueCreate"),
    "cnrtDestroyQueue": "cnrtQueueDestroy",
    **dict.fromkeys(("cnrtCreateNotifier", "cnrtNotifierCreateWithFlags"), "cnrtNotifierCreate"),
    "cnrtDestroyNotifier": "cnrtNotifierDestroy",
    "cnrtQueryNotifier": "cnrtWaitNotifier",
    "cnrtMallocConstant": "cnrtMalloc",
    **dict.fromkeys(("cnrtMallocHost", "cnrtHostMallocWithFlags"), "cnrtHostMalloc"),
    "cnrtMemcpyAsync_V2": "cnrtMemcpyAsync",
    **dict.fromkeys(("cnrtMemsetAsync", "cnrtMemsetD8"), "cnrtMemset"),
    "cnrtCastDataType_V2": "cnrtCastDataType",
    "cnrtGetErrorName": "cnrtGetErrorStr",
    **dict.fromkeys(("cnrtGetDeviceHandle", "cnDeviceGet", "cnCtxGetDevice"), "cnrtGetDevice"),
    "cnrtSetCurrentDevice": "cnrtSetDevice",
    "cnDeviceGetCount": "cnrtGetDeviceCount",
    "cnDeviceGetAttribute": "cnrtDeviceGetAttribute",
    "cnCtxCreate": "cnCtxGetCurrent",
    "cnCtxGetConfigParam": "cnGetCtxConfigParam",
    "cnGetVersion": "cnrtRuntimeGetVersion",
}
# Functions that have nothing to do on a simulated board.
NOTHING_TO_DO = frozenset(("cnInit", "cnrtInit", "cnrtDestroy", "cnrtDeviceReset", "cnCtxDestroy", "cnCtxSetCurrent"))

# `cnrtRet_t`, as `cnrt.h` has it.
STATUS = {
    "cnrtSuccess": 0,
    "cnrtErrorNotReady": 632005,
    "cnrtErrorArgsInvalid": 632007,
    "cnrtErrorNoMem": 632014,
    "cnrtErrorUnknown": 632999,
}
# What device attributes say, by their numbers in `cn_api.h`.
ATTRIBUTES: dict[int, Callable[[Board], int]] = {
    1: lambda board: board.arch // 100,
    2: lambda board: board.arch // 10 % 10,
    20: lambda board: board.clusters,
    21: lambda board: board.max_union,
    22: lambda board: board.cores_per_cluster,
    30: lambda board: board.nram_bytes,
    31: lambda board: board.wram_bytes,
    32: lambda board: board.sram_bytes,
    33: lambda board: board.l2_bytes,
    34: lambda board: board.gdram_bytes >> 20,
    40: lambda _: 65535,
    41: lambda _: 65535,
    42: lambda _: 65535,
    50: lambda board: board.arch,
    51: lambda board: int(board.cores_per_cluster > 1),
    52: lambda board: board.clock_hz // 1000,
}


def _table(text: str, returns: str) -> dict[str, tuple[int, str]]:
    found = {}
    for entry in text.replace("\n", "|").split("|"):
        if entry:
            name, count = entry.split()
            found[name] = (int(count), returns)
    return found


HOST_CALLS: dict[str, tuple[int, str]] = {
    **_table(_STATUS, "cnrtRet_t"),
    **_table(_DRIVER, "CNresult"),
    "cnrtGetErrorStr": (1, "const char *"),
    "cnrtGetErrorName": (1, "const char *"),
}
