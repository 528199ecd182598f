"""The functions of CNRT and CNDRV that host code may call: how many arguments each takes, what it gives."""

from __future__ import annotations

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
cnrtRuntimeGetVersion 1|cnrtGetLibVersion 3|cnrtInvokeKernel 6|cnrtDeviceReset 0|cnrtCastDataType_V2 7
"""
_DRIVER = """
cnInit 1|cnDeviceGet 2|cnDeviceGetAttribute 3|cnDeviceGetCount 1|cnCtxGetCurrent 1|cnCtxGetDevice 1|cnCtxCreate 3
cnGetCtxMaxParallelUnionTasks 3|cnGetCtxConfigParam 3|cnCtxGetConfigParam 3|cnQueueSync 1|cnInvokeKernel 9
cnInvokeKernelEx 3|cnCtxDestroy 1|cnCtxSetCurrent 1|cnDeviceGetName 3|cnGetVersion 1|cnGetErrorString 2
cnQueueIsCapturing 2
"""


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
