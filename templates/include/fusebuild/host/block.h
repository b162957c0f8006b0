// One block of threads on one OS thread.
//
// A fiber runs threads to completion, one after another, until one of them has to wait: then the next fiber
// goes on with the threads that have not started. So a kernel without barriers needs one fiber, and one with
// barriers as many as threads wait at once. Threads run in a fixed order; a kernel that gives other results
// in another order has a race.

#pragma once

#include <cstdarg>
#include <memory>

#include "fusebuild/access.cuh"
#include "fusebuild/host/fiber.h"

namespace fusebuild::host {

struct Point {
  int x = 0, y = 0, z = 0;
};

// Where the thread that runs now is. Its own variable, without a constructor, so that reading it is one load.
struct Position {
  Point thread, block, grid;
  unsigned char* dynamic_shared;
  uint64_t generation;  // differs for every block that this OS thread has run
};
inline thread_local Position position{};

// What a kernel does, with its arguments packed away.
struct Kernel {
  const char* name;
  void (*run)(const void* arguments);
  const void* arguments;
};

enum class State : unsigned char { kRunning, kSyncBlock, kSyncWarp, kShuffle, kReturned };

// What the lanes of a warp do together; all of them must do the same.
struct WarpOperation {
  State kind;
  Shuffle mode;
  int width, bytes;

  bool operator!=(const WarpOperation& other) const {
    return kind != other.kind || mode != other.mode || width != other.width || bytes != other.bytes;
  }
};

class Block {
 public:
  Block(const Kernel& kernel, Point size, int64_t shared_bytes, StackPool& stacks)
      : kernel_(kernel),
        size_(size),
        threads_(size.x * size.y * size.z),
        shared_bytes_(shared_bytes),
        dynamic_shared_(new unsigned char[static_cast<size_t>(shared_bytes)]),
        stacks_(stacks),
        fibers_(new Fiber[static_cast<size_t>(threads_)]),
        states_(new State[static_cast<size_t>(threads_)]),
        warps_(new Warp[static_cast<size_t>((threads_ + kWarpThreads - 1) / kWarpThreads)]) {
    for (int thread = 0; thread < threads_; ++thread) {
      fibers_[thread].index = thread;
      ++warps_[thread / kWarpThreads].lanes;
    }
  }

  void run(Point index);
  void sync_block();
  void sync_warp() { meet_warp(WarpOperation{State::kSyncWarp, Shuffle::kXor, kWarpThreads, 0}); }

  // The running thread's place in its warp.
  int lane() const { return current_->thread % kWarpThreads; }

  // The value of the lane that `mode` and `operand` name, as __shfl_*_sync with all lanes.
  template <typename T>
  T shuffle(Shuffle mode, T value, int operand, int width);

  // Ends the process with a message that says which thread of which kernel did what (in printf's format).
  [[noreturn]] __attribute__((format(printf, 2, 3))) void fail(const char* format, ...) const;

 private:
  struct Slot {
    alignas(16) unsigned char bytes[16];
  };
  struct Warp {
    int lanes = 0, arrived = 0, parity = 0;
    WarpOperation operation{};
    FiberList waiting;
    // Lanes read after they met and write before they meet again, so two sets of slots taking turns keep
    // apart the reads of one shuffle and the writes of the next.
    Slot slots[2][kWarpThreads];
  };

  // Never returns, and so must not leave a frame with red zones behind.
  __attribute__((no_sanitize("address"))) static void fiber_main();
  void run_threads();
  void resume(Fiber& fiber);
  void suspend(State state, FiberList& list);
  void meet_warp(const WarpOperation& operation);
  int source_lane(Shuffle mode, int lane, int operand, int width, int lanes) const;
  void locate(int thread);
  Point point_of(int thread) const {
    return {thread % size_.x, thread / size_.x % size_.y, thread / size_.x / size_.y};
  }
  [[noreturn]] void fail_diverged() const;

  const Kernel kernel_;
  const Point size_;
  const int threads_;
  const int64_t shared_bytes_;
  const std::unique_ptr<unsigned char[]> dynamic_shared_;
  StackPool& stacks_;

  const std::unique_ptr<Fiber[]> fibers_;
  const std::unique_ptr<State[]> states_;  // of each thread
  const std::unique_ptr<Warp[]> warps_;
  FiberList ready_, waiting_, free_;
  Fiber* current_ = nullptr;
  StackRecord scheduler_;
  void* scheduler_stack_pointer_ = nullptr;
  int started_ = 0, returned_ = 0, arrived_ = 0;
};

inline thread_local Block* current_block = nullptr;

// Shared memory of a block starts as all ones: NaN in every floating type, and no bool.
constexpr int kPoison = 0xff;

inline void Block::run(Point index) {
  position.block = index;
  position.dynamic_shared = dynamic_shared_.get();
  ++position.generation;
  memset(dynamic_shared_.get(), kPoison, static_cast<size_t>(shared_bytes_));
  current_block = this;
  started_ = returned_ = 0;
  free_ = FiberList();
  for (int fiber = 0; fiber < threads_; ++fiber) free_.push(&fibers_[fiber]);
  for (;;) {
    if (!ready_.empty()) {
      resume(*ready_.pop());
    } else if (started_ < threads_) {
      Fiber& fiber = *free_.pop();
      fiber.prepare(stacks_, &fiber_main);
      resume(fiber);
    } else {
      break;
    }
  }
  if (returned_ < threads_) fail_diverged();
}

inline void Block::fiber_main() {
  Block& block = *current_block;
  confirm_switch(nullptr, &block.scheduler_);
  block.run_threads();
  Fiber& fiber = *block.current_;
  block.free_.push_first(&fiber);
  announce_switch(nullptr, block.scheduler_);  // nullptr: this stack holds nothing any more
  fusebuild_switch_fiber(&fiber.stack_pointer, block.scheduler_stack_pointer_);
  std::abort();  // a fiber that is done is prepared anew, never resumed
}

inline void Block::run_threads() {
  while (started_ < threads_) {
    const int thread = current_->thread = started_++;
    states_[thread] = State::kRunning;
    locate(thread);
    kernel_.run(kernel_.arguments);
    states_[current_->thread] = State::kReturned;
    ++returned_;
  }
}

inline void Block::locate(int thread) { position.thread = point_of(thread); }

inline void Block::resume(Fiber& fiber) {
  current_ = &fiber;
  locate(fiber.thread);
  announce_switch(&scheduler_.fake_stack, fiber.stack);
  fusebuild_switch_fiber(&scheduler_stack_pointer_, fiber.stack_pointer);
  confirm_switch(scheduler_.fake_stack, nullptr);
  if (fiber.has_overflowed()) fail("a thread needs more than the %zu bytes of its stack", kStackBytes);
}

inline void Block::suspend(State state, FiberList& list) {
  Fiber& fiber = *current_;
  states_[fiber.thread] = state;
  list.push(&fiber);
  announce_switch(&fiber.stack.fake_stack, scheduler_);
  fusebuild_switch_fiber(&fiber.stack_pointer, scheduler_stack_pointer_);
  confirm_switch(fiber.stack.fake_stack, &scheduler_);
  states_[fiber.thread] = State::kRunning;
}

inline void Block::sync_block() {
  if (++arrived_ < threads_) return suspend(State::kSyncBlock, waiting_);
  arrived_ = 0;
  ready_.take(waiting_);
}

inline const char* name_of(State state) {
  switch (state) {
    case State::kRunning:
      return "running";
    case State::kSyncBlock:
      return "at sync_block";
    case State::kSyncWarp:
      return "at sync_warp";
    case State::kShuffle:
      return "at a shuffle";
    case State::kReturned:
      return "returned";
  }
  return "";
}

inline void Block::meet_warp(const WarpOperation& operation) {
  Warp& warp = warps_[current_->thread / kWarpThreads];
  if (warp.arrived == 0) warp.operation = operation;
  if (operation != warp.operation) {
    const bool both_shuffle = operation.kind == State::kShuffle && warp.operation.kind == State::kShuffle;
    fail("the lanes of a warp meet at %s",
         both_shuffle ? "different shuffles" : "a shuffle and at sync_warp");
  }
  if (++warp.arrived < warp.lanes) return suspend(operation.kind, warp.waiting);
  warp.arrived = 0;
  warp.parity ^= 1;
  ready_.take(warp.waiting);
}

inline int Block::source_lane(Shuffle mode, int lane, int operand, int width, int lanes) const {
  const int group = lane & ~(width - 1);
  int source = mode == Shuffle::kXor    ? lane ^ operand
               : mode == Shuffle::kDown ? lane + operand
                                        : group + (operand & (width - 1));
  if (source >= group + width) source = lane;
  if (source >= lanes) fail("a shuffle reads lane %d, but the warp has %d", source, lanes);
  return source;
}

template <typename T>
T Block::shuffle(Shuffle mode, T value, int operand, int width) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Slot), "a lane's slot holds 16 bytes");
  const int lane = current_->thread % kWarpThreads;
  Warp& warp = warps_[current_->thread / kWarpThreads];
  Slot* slots = warp.slots[warp.parity];
  memcpy(slots[lane].bytes, &value, sizeof(T));
  meet_warp(WarpOperation{State::kShuffle, mode, width, static_cast<int>(sizeof(T))});
  memcpy(&value, slots[source_lane(mode, lane, operand, width, warp.lanes)].bytes, sizeof(T));
  return value;
}

inline void Block::fail(const char* format, ...) const {
  const Point block = position.block, thread = position.thread;
  std::fprintf(stderr, "fusebuild host: kernel %s, block (%d, %d, %d), thread (%d, %d, %d): ", kernel_.name,
               block.x, block.y, block.z, thread.x, thread.y, thread.z);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

inline void Block::fail_diverged() const {
  const Point block = position.block;
  std::fprintf(stderr,
               "fusebuild host: kernel %s, block (%d, %d, %d): its threads diverged and wait forever:",
               kernel_.name, block.x, block.y, block.z);
  const char* separator = " ";
  for (const State state : {State::kSyncBlock, State::kSyncWarp, State::kShuffle, State::kReturned}) {
    int count = 0, first_thread = 0;
    for (int thread = threads_ - 1; thread >= 0; --thread) {
      if (states_[thread] != state) continue;
      ++count;
      first_thread = thread;
    }
    if (count == 0) continue;
    const Point first = point_of(first_thread);
    std::fprintf(stderr, "%s%d %s (the first is thread (%d, %d, %d))", separator, count, name_of(state),
                 first.x, first.y, first.z);
    separator = ", ";
  }
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace fusebuild::host
