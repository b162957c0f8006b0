// Fibers: threads of execution that one OS thread switches between by hand, each on a stack of its own.
//
// A switch saves the registers that a call preserves and exchanges stack pointers: a few nanoseconds, where
// swapcontext() makes two system calls for the signal mask.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "fusebuild/host/stacks.h"

#if defined(__SANITIZE_ADDRESS__)
#define FUSEBUILD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUSEBUILD_ASAN 1
#endif
#endif

#if defined(FUSEBUILD_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// void fusebuild_switch_fiber(void** save, void* load): leaves the current stack pointer in *save, goes on at
// `load`.
extern "C" void fusebuild_switch_fiber(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.pushsection .text
.weak fusebuild_switch_fiber
.hidden fusebuild_switch_fiber
.type fusebuild_switch_fiber, @function
fusebuild_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fusebuild_switch_fiber, . - fusebuild_switch_fiber
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.pushsection .text
.weak fusebuild_switch_fiber
.hidden fusebuild_switch_fiber
.type fusebuild_switch_fiber, %function
fusebuild_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size fusebuild_switch_fiber, . - fusebuild_switch_fiber
.popsection
)");
#else
#error "the host target has no fiber switch for this processor: add one beside x86-64 and aarch64"
#endif

namespace fusebuild::host {

constexpr int kMaxThreads = 1024;  // of one block, as on CUDA

// What AddressSanitizer must be told of a stack that is switched away from and back to.
struct StackRecord {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake_stack = nullptr;
};

inline void announce_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const StackRecord& to) {
#if defined(FUSEBUILD_ASAN)
  __sanitizer_start_switch_fiber(fake_stack, to.bottom, to.bytes);
#endif
}

// `from` is filled with the stack that was left, if given.
inline void confirm_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] StackRecord* from) {
#if defined(FUSEBUILD_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, from ? &from->bottom : nullptr, from ? &from->bytes : nullptr);
#endif
}

// A suspended computation: a stack, and where on it to go on.
struct Fiber {
  void* stack_pointer = nullptr;
  StackRecord stack;
  Fiber* next = nullptr;  // in the list it waits in
  int index = 0;          // of its stack, among all of the cluster
  int thread = 0;         // the thread of the block that it runs at the moment

  // Lays out the stack so that the first switch to it enters `entry`, which must never return. False where
  // there is no memory for it.
  bool prepare(const Stacks& stacks, void (*entry)()) {
    char* bottom = stacks.find(stacks.pool, index);
    if (bottom == nullptr) return false;
    stack = StackRecord{bottom, stacks.bytes, nullptr};
    // Stack tops that differ by a multiple of the page size would all fall into the same few sets of the
    // cache.
    const size_t color = static_cast<size_t>(index) * 192 % 4096;
    auto* top = reinterpret_cast<uint64_t*>(bottom + stacks.bytes - color);
#if defined(__x86_64__)
    *--top = 0;  // entry's return address, for whoever walks the stack
    *--top = reinterpret_cast<uint64_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
#else
    constexpr int kSaved = 20, kFramePointer = 10, kReturnAddress = 11;
    top -= kSaved;
    for (int saved = 0; saved < kSaved; ++saved) top[saved] = 0;
    top[kFramePointer] = 0;
    top[kReturnAddress] = reinterpret_cast<uint64_t>(entry);
#endif
    stack_pointer = top;
    return true;
  }

  bool has_overflowed() const { return stack_pointer < static_cast<const char*>(stack.bottom) + 1024; }
};

// First in, first out, linked through the fibers themselves.
class FiberList {
 public:
  bool empty() const { return first_ == nullptr; }

  void push(Fiber* fiber) {
    fiber->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = fiber;
    last_ = fiber;
  }

  void push_first(Fiber* fiber) {
    if (first_ == nullptr) last_ = fiber;
    fiber->next = first_;
    first_ = fiber;
  }

  Fiber* pop() {
    Fiber* fiber = first_;
    first_ = fiber->next;
    return fiber;
  }

  // Moves all of `other` to the end of this list.
  void take(FiberList& other) {
    if (other.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = other.last_;
    other.first_ = nullptr;
  }

 private:
  Fiber* first_ = nullptr;
  Fiber* last_ = nullptr;
};

}  // namespace fusebuild::host
