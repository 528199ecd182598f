// Waits for the pipes of a core by name: `bang::pipeline`.
#ifndef MLUSIM_BANG_PIPELINE_H_
#define MLUSIM_BANG_PIPELINE_H_

#include "mlu.h"

namespace bang {

// The board has several such objects of a core; here each waits for the pipes as a sync does.
class pipeline {
  public:
    explicit pipeline(uint32_t) {}
    pipeline(const pipeline &) = delete;
    pipeline &operator=(const pipeline &) = delete;
    void wait_compute() { __sync_compute(); }
    void wait_memcpy() { __sync_io_move_compute(true, true, false); }
    void wait_copy_nram_to_nram() { __sync_copy_nram_to_nram(); }
    void wait_copy_nram_to_dram() { __sync_copy_nram_to_dram(); }
    void wait_copy_dram_to_nram() { __sync_copy_dram_to_nram(); }
    void wait_copy_wram_to_dram() { __sync_copy_wram_to_dram(); }
    void wait_copy_dram_to_wram() { __sync_copy_dram_to_wram(); }
    void wait_copy_sram_to_dram() { __sync_copy_sram_to_dram(); }
    void wait_copy_dram_to_sram() { __sync_copy_dram_to_sram(); }
    void wait_copy_nram_to_sram() { __sync_copy_nram_to_sram(); }
    void wait_copy_sram_to_nram() { __sync_copy_sram_to_nram(); }
    void wait_copy_wram_to_sram() { __sync_copy_wram_to_sram(); }
    void wait_copy_sram_to_wram() { __sync_copy_sram_to_wram(); }
    void wait_copy_sram_to_sram() { __sync_copy_sram_to_sram(); }
};

inline void memcpy_async(pipeline &, void *dst, const void *src, size_t size, mluMemcpyDirection_t direction) {
    __memcpy_async(dst, src, size, direction);
}

}  // namespace bang

#endif  // MLUSIM_BANG_PIPELINE_H_
