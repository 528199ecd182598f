// The class of `bang_pipeline.h`, in the header that precedes every file, so that macros of the file do not affect it.
#ifndef MLUSIM_PIPELINE_H_
#define MLUSIM_PIPELINE_H_

// The full names of the intrinsics: those in the headers are always declared.
#define MLUSIM_WAIT(name, intrinsic) \
    void name(MLUSIM_PLACE) { intrinsic(file, line); }

namespace mlusim {

// A core of a board has several such objects; here each waits for the pipes like a sync.
class pipeline {
  public:
    explicit pipeline(uint32_t) {}
    pipeline(const pipeline &) = delete;
    pipeline &operator=(const pipeline &) = delete;
    MLUSIM_WAIT(wait_compute, __sync_compute)
    // In a cluster it is a barrier, of all its cores and the memory core.
    void wait_memcpy(MLUSIM_PLACE) {
        if (clusterDim) {
            __sync_cluster(file, line);
        } else {
            __sync_copy_dram_to_nram(file, line);
            __sync_copy_dram_to_sram(file, line);
        }
    }
    MLUSIM_WAIT(wait_copy_nram_to_nram, __sync_copy_nram_to_nram)
    MLUSIM_WAIT(wait_copy_nram_to_dram, __sync_copy_nram_to_dram)
    MLUSIM_WAIT(wait_copy_dram_to_nram, __sync_copy_dram_to_nram)
    MLUSIM_WAIT(wait_copy_wram_to_dram, __sync_copy_wram_to_dram)
    MLUSIM_WAIT(wait_copy_dram_to_wram, __sync_copy_dram_to_wram)
    MLUSIM_WAIT(wait_copy_sram_to_dram, __sync_copy_sram_to_dram)
    MLUSIM_WAIT(wait_copy_dram_to_sram, __sync_copy_dram_to_sram)
    MLUSIM_WAIT(wait_copy_nram_to_sram, __sync_copy_nram_to_sram)
    MLUSIM_WAIT(wait_copy_sram_to_nram, __sync_copy_sram_to_nram)
    MLUSIM_WAIT(wait_copy_wram_to_sram, __sync_copy_wram_to_sram)
    MLUSIM_WAIT(wait_copy_sram_to_wram, __sync_copy_sram_to_wram)
    MLUSIM_WAIT(wait_copy_sram_to_sram, __sync_copy_sram_to_sram)
};

// The vendor's function waits for copies within NRAM, and between GDRAM and SRAM.
inline void memcpy_async(pipeline &, const void *dst, const void *src, size_t size, mluMemcpyDirection_t direction,
                         MLUSIM_PLACE) {
    void *to = const_cast<void *>(dst);
    if (direction == NRAM2NRAM || direction == GDRAM2SRAM || direction == SRAM2GDRAM)
        __memcpy(to, src, size, direction, file, line);
    else
        __memcpy_async(to, src, size, direction, file, line);
}

namespace vector {
template <class T> void add(pipeline &, T *dst, T *src0, T *src1, int count, MLUSIM_PLACE) {
    __bang_add(dst, src0, src1, count, file, line);
}
template <class T> void sub(pipeline &, T *dst, T *src0, T *src1, int count, MLUSIM_PLACE) {
    __bang_sub(dst, src0, src1, count, file, line);
}
template <class T> void mul(pipeline &, T *dst, T *src0, T *src1, int count, MLUSIM_PLACE) {
    __bang_mul(dst, src0, src1, count, file, line);
}
}  // namespace vector

}  // namespace mlusim

#endif  // MLUSIM_PIPELINE_H_
