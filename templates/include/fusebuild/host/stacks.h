// The stacks that a kernel's fibers run on. They belong to whoever launches kernels and are lent for a
// launch: a kernel's library has nothing that outlives a call, so that it can be unloaded.
//
// No other header is needed here, since the executor includes this one too.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

// What AddressSanitizer has, in processes that run with it.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(void const volatile* address,
                                                                    size_t bytes);

namespace fusebuild::host {

// What a kernel's entry returns.
constexpr int32_t kOk = 0;
constexpr int32_t kInvalidValue = 1;  // as CUDA_ERROR_INVALID_VALUE
constexpr int32_t kOutOfMemory = 2;   // as CUDA_ERROR_OUT_OF_MEMORY
constexpr int32_t kMisused = 3;       // a thread broke a rule; stderr says which

constexpr int kMaxStacks = 8 * 1024;  // of all threads of the largest cluster

// Stacks of `bytes` each. `find` gives the lowest address of the one with that index, which is below
// kMaxStacks, or null where there is no memory for it.
struct Stacks {
  size_t bytes;
  char* (*find)(void* pool, int index);
  void* pool;
};

// One OS thread's stacks, which take memory only where they are touched. Neighbours are mapped together,
// above a page that nobody may touch.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (Chunk& chunk : chunks_) unmap(chunk);
  }

  Stacks lend() {
    return {stack_bytes(), [](void* pool, int index) { return static_cast<StackPool*>(pool)->find(index); },
            this};
  }

  // Lets the system take back the memory of all stacks but the first, should it need it; in use again, they
  // cost no page fault if it did not.
  void idle() {
    for (Chunk& chunk : chunks_) {
      const int kept = &chunk == chunks_ ? 1 : 0;
      char* first = chunk.mapping + kGuardBytes + kept * stack_bytes();
      if (chunk.used > kept) madvise(first, (chunk.used - kept) * stack_bytes(), MADV_FREE);
      chunk.used = 0;
    }
  }

 private:
  static constexpr int kTogether = 64;              // stacks of a mapping
  static constexpr size_t kGuardBytes = 64 * 1024;  // a whole number of pages on every system

  struct Chunk {
    char* mapping = nullptr;
    int used = 0;  // since idle()
  };

  // Red zones make frames larger.
  static size_t stack_bytes() { return (__asan_unpoison_memory_region != nullptr ? 256 : 128) * 1024; }
  static size_t chunk_bytes() { return kGuardBytes + kTogether * stack_bytes(); }

  char* find(int index) {
    Chunk& chunk = chunks_[index / kTogether];
    if (chunk.mapping == nullptr && !map(chunk)) return nullptr;
    const int place = index % kTogether;
    if (place >= chunk.used) chunk.used = place + 1;
    return chunk.mapping + kGuardBytes + place * stack_bytes();
  }

  static bool map(Chunk& chunk) {
    void* memory = mmap(nullptr, chunk_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    if (mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
      munmap(memory, chunk_bytes());
      return false;
    }
    madvise(memory, chunk_bytes(),
            MADV_NOHUGEPAGE);  // a huge page would commit many stacks at the first touch
    chunk.mapping = static_cast<char*>(memory);
    return true;
  }

  static void unmap(Chunk& chunk) {
    if (chunk.mapping == nullptr) return;
    // Whoever gets these addresses next must not find the red zones of frames that never returned.
    if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(chunk.mapping, chunk_bytes());
    munmap(chunk.mapping, chunk_bytes());
  }

  Chunk chunks_[kMaxStacks / kTogether];
};

}  // namespace fusebuild::host
