"""The functions of CNRT and CNDRV that host code may call: numbers of arguments, or their types, and return types."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlusim.cores.tasks.launch_checks import UNIONS
from mlusim.hardware import Board

_STATUS = """
cnrtMalloc(void **, size_t)|cnrtFree(void *)|cnrtHostMalloc(void **, size_t)|cnrtFreeHost(void *)|cnrtMallocConstant 2
cnrtMemset(void *, int, size_t)|cnrtMemsetAsync 4|cnrtMemsetD8 3|cnrtMemsetD32 3
cnrtMemcpy(void *, void *, size_t, cnrtMemTransDir_t)
cnrtMemcpyAsync(void *, void *, size_t, cnrtQueue_t, cnrtMemTransDir_t)|cnrtMemcpyAsync_V2 5|cnrtMemcpyPeer 5
cnrtMemGetInfo 2|cnrtQueueCreate(cnrtQueue_t *)|cnrtQueueCreateWithPriority 3|cnrtQueueDestroy(cnrtQueue_t)
cnrtQueueSync(cnrtQueue_t)|cnrtQueueQuery(cnrtQueue_t)|cnrtSyncDevice()|cnrtQueueWaitNotifier 3
cnrtNotifierCreate(cnrtNotifier_t *)|cnrtNotifierCreateWithFlags 2|cnrtNotifierDestroy(cnrtNotifier_t)
cnrtPlaceNotifier(cnrtNotifier_t, cnrtQueue_t)|cnrtWaitNotifier(cnrtNotifier_t)|cnrtQueryNotifier(cnrtNotifier_t)
cnrtNotifierDuration 3|cnrtNotifierElapsedTime 3|cnrtSetDevice(int)|cnrtGetDevice(int *)
cnrtGetDeviceCount(unsigned int *)|__mlusim_device_name 3|cnrtDeviceGetAttribute 3|cnrtInit 1|cnrtDestroy 0
cnrtGetDeviceHandle 2|cnrtSetCurrentDevice(int)|cnrtGetLastError()|cnrtPeekAtLastError()|cnrtRuntimeGetVersion 1
cnrtGetLibVersion 3|cnrtDriverGetVersion 3|cnrtDeviceReset 0|cnrtCreateQueue(cnrtQueue_t *)|cnrtSetDeviceFlag 1
cnrtGetDeviceFlag 1|cnrtDeviceGetQueuePriorityRange 2|cnrtQueueGetPriority 2|cnrtDeviceGetPCIBusId 3
cnrtGetPeerAccessibility 3|cnrtPlaceNotifierWithFlags 3|cnrtMemcpy2D 7|cnrtMemcpy2DAsync 8|cnrtMemcpy3D 1
cnrtMemcpyPeerAsync 6|cnrtMemcpyAsync_V3 5|cnrtMemsetD8Async 4|cnrtMemsetD32Async 4|cnrtMallocAsync 3|cnrtFreeAsync 2
cnrtMallocFrameBuffer 3|cnrtPointerGetAttributes 2|cnrtHostRegister 3|cnrtHostUnregister 1|cnrtMcacheOperation 5
cnrtFreeConstant 1|cnrtMallocHostMemory 2|cnrtDestroyQueue(cnrtQueue_t)|cnrtSyncQueue(cnrtQueue_t)
cnrtCreateNotifier(cnrtNotifier_t *)|cnrtDestroyNotifier 1|cnrtMallocHost 2|cnrtQueryQueue(cnrtQueue_t)
cnrtCastDataType_V2 7|cnrtCastDataType 6|cnrtConvertFloatToHalf 2|cnrtConvertHalfToFloat 2|cnrtQueueCreateWithFlags 2
cnrtHostMallocWithFlags 3|cnrtSetCurrentChannel 1|cnrtLibGetVersion 3|__mlusim_host_function 2
"""
_DRIVER = """
cnInit 1|cnDeviceGet 2|cnDeviceGetAttribute 3|cnDeviceGetCount 1|cnCtxGetCurrent 1|cnCtxGetDevice 1|cnCtxCreate 3
cnGetCtxMaxParallelUnionTasks 3|cnGetCtxConfigParam 3|cnCtxGetConfigParam 3|cnQueueSync 1|cnInvokeKernel 9
cnInvokeKernelEx 3|cnCtxDestroy 1|cnCtxSetCurrent 1|cnDeviceGetName 3|cnGetVersion 1|cnGetErrorString 2
cnQueueIsCapturing 2|cnMalloc 2|cnFree 1|cnMallocHost 2|cnFreeHost 1|cnMemcpy 3|cnMemcpyHtoD 3|cnMemcpyDtoH 3
cnMemcpyDtoD 3|cnMemcpyHtoDAsync 4|cnMemcpyDtoHAsync 4|cnMemcpyDtoDAsync 4|cnMemcpyAsync 4|cnMemsetD8 3|cnMemsetD32 3
cnMemsetD8Async 4|cnMemsetD32Async 4|cnMemGetInfo 2|cnCreateQueue 2|cnDestroyQueue 1|cnQueryQueue 1|cnCtxSync 0
cnCtxSynchronize 0|cnCreateNotifier 2|cnDestroyNotifier 1|cnPlaceNotifier 2|cnWaitNotifier 1|cnQueryNotifier 1
cnQueueWaitNotifier 3|cnGetNotifierDuration 3|cnGetNotifierElapsedTime 3|cnGetErrorName 2|cnGetLibVersion 3
cnGetDriverVersion 3|cnSharedContextAcquire 2|cnSharedContextRelease 1|cnSetCtxConfigParam 3|cnQueueGetContext 2
cnDeviceTotalMem 2|cnMallocConstant 2
"""

# Aliases of other functions.
SAME = {
    **dict.fromkeys(("cnrtSyncQueue", "cnQueueSync"), "cnrtQueueSync"),
    **dict.fromkeys(("cnrtQueryQueue", "cnQueryQueue"), "cnrtQueueQuery"),
    **dict.fromkeys(
        ("cnrtCreateQueue", "cnrtQueueCreateWithPriority", "cnrtQueueCreateWithFlags", "cnCreateQueue"),
        "cnrtQueueCreate",
    ),
    **dict.fromkeys(("cnrtDestroyQueue", "cnDestroyQueue"), "cnrtQueueDestroy"),
    **dict.fromkeys(("cnCtxSync", "cnCtxSynchronize"), "cnrtSyncDevice"),
    **dict.fromkeys(("cnrtCreateNotifier", "cnrtNotifierCreateWithFlags", "cnCreateNotifier"), "cnrtNotifierCreate"),
    **dict.fromkeys(("cnrtDestroyNotifier", "cnDestroyNotifier"), "cnrtNotifierDestroy"),
    **dict.fromkeys(("cnrtPlaceNotifierWithFlags", "cnPlaceNotifier"), "cnrtPlaceNotifier"),
    **dict.fromkeys(("cnrtGetDeviceFlag", "cnrtGetPeerAccessibility"), "cnrtGetDevice"),
    "cnWaitNotifier": "cnrtWaitNotifier",
    "cnQueryNotifier": "cnrtQueryNotifier",
    "cnQueueWaitNotifier": "cnrtQueueWaitNotifier",
    "cnGetNotifierDuration": "cnrtNotifierDuration",
    "cnGetNotifierElapsedTime": "cnrtNotifierElapsedTime",
    **dict.fromkeys(
        ("cnrtMallocConstant", "cnrtMallocAsync", "cnrtMallocFrameBuffer", "cnMalloc", "cnMallocConstant"), "cnrtMalloc"
    ),
    **dict.fromkeys(("cnrtFreeAsync", "cnrtFreeConstant", "cnFree"), "cnrtFree"),
    **dict.fromkeys(
        ("cnrtMallocHost", "cnrtHostMallocWithFlags", "cnrtMallocHostMemory", "cnMallocHost"), "cnrtHostMalloc"
    ),
    "cnFreeHost": "cnrtFreeHost",
    "cnrtMemcpyAsync_V2": "cnrtMemcpyAsync",
    **dict.fromkeys(("cnMemcpyHtoD", "cnMemcpyHtoDAsync"), "cnMemcpyHtoD"),
    **dict.fromkeys(("cnMemcpyDtoH", "cnMemcpyDtoHAsync"), "cnMemcpyDtoH"),
    **dict.fromkeys(("cnMemcpyDtoD", "cnMemcpyDtoDAsync"), "cnMemcpyDtoD"),
    "cnMemcpyAsync": "cnMemcpy",
    "cnrtMemcpyPeerAsync": "cnrtMemcpyPeer",
    "cnrtMemcpy2DAsync": "cnrtMemcpy2D",
    **dict.fromkeys(
        ("cnrtMemsetAsync", "cnrtMemsetD8", "cnrtMemsetD8Async", "cnMemsetD8", "cnMemsetD8Async"), "cnrtMemset"
    ),
    **dict.fromkeys(("cnrtMemsetD32Async", "cnMemsetD32", "cnMemsetD32Async"), "cnrtMemsetD32"),
    "cnMemGetInfo": "cnrtMemGetInfo",
    "cnrtCastDataType_V2": "cnrtCastDataType",
    "cnrtGetErrorName": "cnrtGetErrorStr",
    "cnGetErrorName": "cnGetErrorString",
    "cnrtLibGetVersion": "cnrtGetLibVersion",
    **dict.fromkeys(("cnrtDriverGetVersion", "cnGetDriverVersion"), "cnGetLibVersion"),
    **dict.fromkeys(("cnrtGetDeviceHandle", "cnDeviceGet", "cnCtxGetDevice"), "cnrtGetDevice"),
    "cnrtSetCurrentDevice": "cnrtSetDevice",
    "cnDeviceGetCount": "cnrtGetDeviceCount",
    "cnDeviceGetAttribute": "cnrtDeviceGetAttribute",
    **dict.fromkeys(("cnCtxCreate", "cnSharedContextAcquire"), "cnCtxGetCurrent"),
    "cnCtxGetConfigParam": "cnGetCtxConfigParam",
    "__mlusim_device_name": "mlusim_device_name",
    "__mlusim_host_function": "mlusim_host_function",
    "__mlusim_hint": "mlusim_hint",
}
# Positions of the arguments of copies that are addresses. For each, compiled code also passes how many bytes the object
# of that address has from there on, as far as the compiler knows.
ADDRESSES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        (
            *("cnrtMemcpy", "cnrtMemcpyAsync", "cnrtMemcpyAsync_V2", "cnrtMemcpyAsync_V3"),
            *("cnMemcpy", "cnMemcpyHtoD", "cnMemcpyDtoH", "cnMemcpyAsync", "cnMemcpyHtoDAsync", "cnMemcpyDtoHAsync"),
        ),
        (0, 1),
    ),
    **dict.fromkeys(("cnrtMemcpy2D", "cnrtMemcpy2DAsync"), (0, 2)),
}
# Functions with an argument that is a float.
OF_FLOATS = frozenset(("cnrtConvertFloatToHalf", "cnrtConvertHalfToFloat"))
# Functions without effect on a simulated board.
NOTHING_TO_DO = frozenset(
    (
        "cnInit",
        "cnrtInit",
        "cnrtDestroy",
        "cnrtDeviceReset",
        "cnCtxDestroy",
        "cnCtxSetCurrent",
        "cnSetCtxConfigParam",
        "cnSharedContextRelease",
        "cnrtSetCurrentChannel",
        "cnrtSetDeviceFlag",
        "cnrtHostRegister",
        "cnrtHostUnregister",
        "cnrtMcacheOperation",
    )
)

# `cnrtFunctionType_t`, as in `cnrt.h`: a union of n clusters is n times that of one.
FUNCTION_TYPE_UNION1 = 4
FUNCTION_TYPES = {1: "BLOCK"} | {FUNCTION_TYPE_UNION1 * clusters: name for name, clusters in UNIONS.items()}
# `cnrtRet_t`, as in `cnrt.h`.
STATUS = {
    "cnrtSuccess": 0,
    "cnrtErrorInit": 632001,
    "cnrtErrorNoDevice": 632002,
    "cnrtErrorDeviceInvalid": 632003,
    "cnrtErrorNotReady": 632005,
    "cnrtErrorArgsInvalid": 632007,
    "cnrtErrorInvalidSymbol": 632008,
    "cnrtErrorQueueInvalid": 632009,
    "cnrtErrorNoMem": 632014,
    "cnrtErrorSys": 632015,
    "cnrtErrorKernelUserTrap": 632016,
    "cnrtErrorUnknown": 632999,
}
# Values of device attributes, by their numbers in `cn_api.h`.
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
    53: lambda board: board.dram_bandwidth_bytes_per_s * 8 // max(board.dram_bus_bits, 1) // 2000,
    54: lambda board: board.dram_bus_bits,
    55: lambda _: 4096,
    56: lambda _: 1 << 20,
    57: lambda _: 1,
    58: lambda board: board.ldram_bytes_per_core,
    59: lambda _: 0,
    60: lambda _: 0,
    61: lambda _: 0,
}


def _table(text: str, returns: str) -> dict[str, tuple[int, str]]:
    """Return number of arguments and return type by name."""
    matches = re.finditer(r"(\w+)(?: (\d+)|\((.*?)\))", text)
    return {
        name: (int(count or len(_types(types))), returns)
        for name, count, types in (match.groups() for match in matches)
    }


def _types(parameters: str) -> list[str]:
    return [kind for kind in parameters.split(", ") if kind]


HOST_CALLS: dict[str, tuple[int, str]] = {
    **_table(_STATUS, "cnrtRet_t"),
    **_table(_DRIVER, "CNresult"),
    "cnrtGetErrorStr": (1, "const char *"),
    "cnrtGetErrorName": (1, "const char *"),
}
# Parameters of functions that a program may use as values, such as the deleter of a smart pointer.
PARAMETERS: dict[str, str] = dict(re.findall(r"(\w+)\((.*?)\)", _STATUS))


def parameters_and_body(name: str, *extra: str) -> str:
    """Return what follows the name of a function that calls one of `PARAMETERS`, with more arguments."""
    types = _types(PARAMETERS[name])
    parameters = ", ".join(f"{kind} a{k}" for k, kind in enumerate(types))
    arguments = ", ".join((*(f"a{k}" for k in range(len(types))), *extra))
    return f"({parameters}) {{ return {name}({arguments}); }}"
