// Host code with a half of its own, a kernel by its C name, and a queue that an object owns.
#include <stdio.h>

#include "cnrt.h"
typedef unsigned short half;
extern "C" void doubled(half *out, half *x, int count);

class Queue {
public:
    Queue() { cnrtQueueCreate(&queue); }
    Queue(const Queue &) = delete;
    ~Queue() { cnrtQueueDestroy(queue); }
    operator cnrtQueue_t() const { return queue; }
    cnrtQueue_t queue;
};

int main() {
    const int count = 100;
    float x[count], out[count];
    half bits[count];
    for (int i = 0; i < count; ++i) x[i] = i;
    cnrtConvertFloatToHalfArray(bits, x, count);
    half *x_dev, *out_dev;
    cnrtMalloc((void **)&x_dev, sizeof(bits));
    cnrtMalloc((void **)&out_dev, sizeof(bits));
    cnrtMemcpy(x_dev, bits, sizeof(bits), CNRT_MEM_TRANS_DIR_HOST2DEV);
    Queue queue;
    cnrtDim3_t dim = {4, 1, 1};
    doubled<<<dim, cnrtFuncTypeUnion1, queue>>>(out_dev, x_dev, count);
    cnrtKernelParamsBuffer_t params;
    cnrtGetKernelParamsBuffer(&params);
    cnrtKernelParamsBufferAddParam(params, &x_dev, sizeof(half *));
    cnrtKernelParamsBufferAddParam(params, &out_dev, sizeof(half *));
    cnrtKernelParamsBufferAddParam(params, &count, sizeof(int));
    cnrtInvokeKernel_V2((void *)&doubled, dim, params, CNRT_FUNC_TYPE_UNION1, queue);
    cnrtDestroyKernelParamsBuffer(params);
    if (cnrtQueueSync(queue) != cnrtSuccess) return 1;
    cnrtMemcpy(bits, x_dev, sizeof(bits), CNRT_MEM_TRANS_DIR_DEV2HOST);
    cnrtConvertHalfToFloatArray(out, bits, count);
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += out[i] != 4.0f * i;
    printf("wrong: %d\n", wrong);
    return wrong;
}
