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
    void wait_memcpy(MLUSIM_PLACE) { __sync_io_move_compute(true, true, false, file, line); }
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

inline void memcpy_async(pipeline &, void *dst, const void *src, size_t size, mluMemcpyDirection_t direction,
                         MLUSIM_PLACE) {
    __memcpy_async(dst, src, size, direction, file, line);
}

}  // namespace mlusim

#endif  // MLUSIM_PIPELINE_H_
