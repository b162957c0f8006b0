// One block of threads on one OS thread, or the blocks of one cluster.
//
// A fiber runs threads to completion, one after another, until one of them has to wait: then the next fiber
// goes on with the threads that have not started. So a kernel without barriers needs one fiber, and one with
// barriers as many as threads wait at once. The blocks of a cluster take turns, each until all its threads
// wait. Threads run in a fixed order; a kernel that gives other results in another order has a race.
//
// All of this is compiled once more with every kernel, and the standard containers took longer than kernels
// do, so there are none of them here.

#pragma once

#include <utility>

#include "fusebuild/access.cuh"
#include "fusebuild/host/fiber.h"
#include "fusebuild/host/memory.h"

namespace fusebuild::host {

struct Point {
  int x = 0, y = 0, z = 0;
};

// Where the thread that runs now is. Its own variable, without a constructor, so that reading it is one load.
struct Position {
  Point thread, block, block_size, grid;
  unsigned char* dynamic_shared;
  int rank;             // of the block in its cluster
  uint64_t generation;  // differs for every cluster that this OS thread has run
};
inline thread_local Position position{};

// What a kernel does, with its arguments packed away.
struct Kernel {
  const char* name;
  void (*run)(const void* arguments);
  const void* arguments;
};

enum class State : unsigned char {
  kRunning,
  kSyncBlock,
  kWaitCluster,
  kWaitTransfers,
  kSyncWarp,
  kShuffle,
  kReturned
};

// What the lanes of a warp do together; all of them must do the same.
struct WarpOperation {
  State kind;
  Shuffle mode;
  int width, bytes;

  bool operator!=(const WarpOperation& other) const {
    return kind != other.kind || mode != other.mode || width != other.width || bytes != other.bytes;
  }
};

class Cluster;

// Shared memory of a block starts as all ones: NaN in every floating type, and no bool.
constexpr int kPoison = 0xff;

// What a thread copies to shared memory without waiting for it, in groups that it ends.
class Copies {
 public:
  Copies() = default;
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  ~Copies() { forget(); }

  // Of `size` bytes the first `read`; the others get zeros. As late as a GPU may copy: until it is waited
  // for, the place holds what is nonsense in any type. Where there is no memory to remember the copy it is
  // made at once, as a GPU may, too.
  void add(void* place, const void* address, size_t size, size_t read) {
    Copy* copy = make<Copy>(nullptr, ended_groups_, place, size);
    if (copy == nullptr) {
      memmove(place, address, read);
      memset(static_cast<unsigned char*>(place) + read, 0, size - read);
      return;
    }
    memcpy(copy->bytes, address, read);
    memset(place, kPoison, size);
    (first_ == nullptr ? first_ : last_->next) = copy;
    last_ = copy;
  }

  void end_group() { ++ended_groups_; }

  // Does what is in ended groups, but for the last `later` of them.
  void finish(int64_t later) {
    while (first_ != nullptr && first_->group < ended_groups_ - later) {
      memcpy(first_->place, first_->bytes, first_->size);
      drop_first();
    }
  }

  void forget() {
    while (first_ != nullptr) drop_first();
    ended_groups_ = 0;
  }

 private:
  struct Copy {
    Copy* next;
    int64_t group;
    void* place;
    size_t size;
    unsigned char bytes[16] = {};
  };

  void drop_first() { destroy(std::exchange(first_, first_->next)); }

  Copy* first_ = nullptr;  // the oldest
  Copy* last_ = nullptr;   // where there is a first
  int64_t ended_groups_ = 0;
};

// Lies in the shared memory of its block, and is nonsense until it is prepared.
struct TransferBarrier {
  static constexpr uint32_t kPrepared = 0x7ea5e77e;

  uint32_t prepared;
  int rank;  // of its block
  bool expects;
  int64_t bytes;   // still to come, negative while more have come than are expected
  int64_t phases;  // that are over
};

class Block {
 public:
  Block(const Kernel& kernel, Point size, int64_t shared_bytes, const Stacks& stacks, Cluster& cluster,
        int rank)
      : kernel_(kernel),
        size_(size),
        threads_(size.x * size.y * size.z),
        shared_bytes_(shared_bytes),
        dynamic_shared_(shared_bytes),
        stacks_(stacks),
        cluster_(cluster),
        rank_(rank),
        fibers_(threads_),
        states_(threads_),
        barriers_(threads_),
        copies_(threads_),
        warps_((threads_ + kWarpThreads - 1) / kWarpThreads) {
    if (!has_memory()) return;
    for (int thread = 0; thread < threads_; ++thread) {
      fibers_[thread].index = rank * kMaxThreads + thread;
      ++warps_[thread / kWarpThreads].lanes;
    }
  }

  // A block that has none must not be started.
  bool has_memory() const {
    return dynamic_shared_.has_memory() && fibers_.has_memory() && states_.has_memory() &&
           barriers_.has_memory() && copies_.has_memory() && warps_.has_memory();
  }

  // Puts the block at `index` of the grid, with none of its threads begun.
  void start(Point index);

  // Runs threads until all have returned or wait. False if all did so before, or if the block cannot go on:
  // there is no stack for one more thread, or a thread broke a rule.
  bool advance();
  int32_t problem() const { return problem_; }  // kOk, kOutOfMemory or kMisused

  // Makes the stacks of threads that never returned fit for others.
  void drop_stacks();

  bool has_returned() const { return returned_ == threads_; }
  void release_from_cluster() { ready_.take(waiting_for_cluster_); }
  void release_from_transfers() { ready_.take(waiting_for_transfers_); }
  void describe_diverged() const;

  void sync_block();
  void arrive_cluster();
  void wait_cluster();
  void check_peer(int rank);
  void prepare_transfers(TransferBarrier& barrier) {
    barrier = {TransferBarrier::kPrepared, rank_, false, 0, 0};
  }
  void expect_transfers(TransferBarrier& barrier, int bytes);
  void count_transfer(TransferBarrier& barrier, int bytes);
  void wait_transfers(TransferBarrier& barrier, int parity);
  Copies& copies() { return copies_[current_->thread]; }
  void sync_warp() { meet_warp(WarpOperation{State::kSyncWarp, Shuffle::kXor, kWarpThreads, 0}); }

  // The running thread's place in its warp.
  int lane() const { return current_->thread % kWarpThreads; }

  // The value of the lane that `mode` and `operand` name, as __shfl_*_sync with all lanes.
  template <typename T>
  T shuffle(Shuffle mode, T value, int operand, int width);

  // Says which thread of which kernel did what (in printf's format), and leaves the thread for good: the
  // block is misused from then on.
  template <typename... Arguments>
  [[noreturn]] void fail(const char* format, Arguments... arguments);

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

  template <typename... Arguments>
  void say(const char* format, Arguments... arguments) const;
  // As fiber_main, whose thread has not returned.
  [[noreturn]] __attribute__((no_sanitize("address"))) void leave();

  // Never returns, and so must not leave a frame with red zones behind.
  __attribute__((no_sanitize("address"))) static void fiber_main();
  void run_threads();
  void resume(Fiber& fiber);
  void suspend(State state, FiberList& list);
  void meet_warp(const WarpOperation& operation);
  int source_lane(Shuffle mode, int lane, int operand, int width, int lanes);
  void locate(int thread);
  void check_prepared(const TransferBarrier& barrier);
  void end_phase(TransferBarrier& barrier);
  Point point_of(int thread) const {
    return {thread % size_.x, thread / size_.x % size_.y, thread / size_.x / size_.y};
  }

  static constexpr int64_t kNoBarrier = -1;

  const Kernel kernel_;
  const Point size_;
  const int threads_;
  const int64_t shared_bytes_;
  Array<unsigned char> dynamic_shared_;
  const Stacks& stacks_;
  Cluster& cluster_;
  const int rank_;
  Point index_;

  Array<Fiber> fibers_;
  Array<State> states_;      // of each thread
  Array<int64_t> barriers_;  // of its cluster that each thread has arrived at, not waited for
  Array<Copies> copies_;     // of each thread
  Array<Warp> warps_;
  FiberList ready_, waiting_, waiting_for_cluster_, waiting_for_transfers_, free_;
  Fiber* current_ = nullptr;
  StackRecord scheduler_;
  void* scheduler_stack_pointer_ = nullptr;
  int started_ = 0, returned_ = 0, arrived_ = 0;
  int32_t problem_ = kOk;
};

inline thread_local Block* current_block = nullptr;

inline void Block::start(Point index) {
  index_ = index;
  memset(dynamic_shared_.data(), kPoison, static_cast<size_t>(shared_bytes_));
  started_ = returned_ = 0;
  free_ = FiberList();
  for (int thread = 0; thread < threads_; ++thread) {
    barriers_[thread] = kNoBarrier;
    copies_[thread].forget();
    free_.push(&fibers_[thread]);
  }
}

inline bool Block::advance() {
  position.block = index_;
  position.dynamic_shared = dynamic_shared_.data();
  position.rank = rank_;
  current_block = this;
  for (bool advanced = false;; advanced = true) {
    if (!ready_.empty()) {
      resume(*ready_.pop());
      if (problem_ != kOk) return false;
    } else if (started_ < threads_) {
      Fiber& fiber = *free_.pop();
      if (!fiber.prepare(stacks_, &fiber_main)) problem_ = kOutOfMemory;
      if (problem_ == kOk) resume(fiber);
      if (problem_ != kOk) return false;
    } else {
      return advanced;
    }
  }
}

inline void Block::drop_stacks() {
#if defined(FUSEBUILD_ASAN)
  for (int thread = 0; thread < threads_; ++thread) {
    const StackRecord& stack = fibers_[thread].stack;
    if (stack.bottom != nullptr) __asan_unpoison_memory_region(stack.bottom, stack.bytes);
  }
#endif
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
  if (!fiber.has_overflowed()) return;
  say("a thread needs more than the %zu bytes of its stack", fiber.stack.bytes);
  std::abort();  // it may have written over anything
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

// The blocks that run together. Each may reach into the shared memory of its peers, and all meet at barriers.
class Cluster {
 public:
  Cluster(const Kernel& kernel, Point size, int64_t shared_bytes, const Stacks& stacks, int count)
      : count_(count), threads_(count * size.x * size.y * size.z) {
    for (int rank = 0; rank < count_; ++rank)
      blocks_[rank] = make<Block>(kernel, size, shared_bytes, stacks, *this, rank);
  }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster() {
    for (int rank = 0; rank < count_; ++rank) destroy(blocks_[rank]);
  }

  // A cluster that has none must not run.
  bool has_memory() const {
    for (int rank = 0; rank < count_; ++rank) {
      if (blocks_[rank] == nullptr || !blocks_[rank]->has_memory()) return false;
    }
    return true;
  }

  // Runs the blocks at `first` and those `apart` from one another. Returns kOk; kOutOfMemory where there is
  // no memory for their stacks; or kMisused, after a message on stderr.
  int32_t run(Point first, Point apart);

  // The number of the barrier that one more thread has arrived at.
  int64_t arrive();

  int64_t completed_barriers() const { return completed_barriers_; }
  int blocks() const { return count_; }
  Block& block(int rank) { return *blocks_[rank]; }

 private:
  // Ends a run that some threads did not return from, because of `problem`.
  int32_t give_up(int32_t problem) {
    for (int rank = 0; rank < count_; ++rank) block(rank).drop_stacks();
    return problem;
  }

  Block* blocks_[kMaxClusterBlocks];
  const int count_;
  const int threads_;
  int arrived_ = 0;
  int64_t completed_barriers_ = 0;
};

inline int32_t Cluster::run(Point first, Point apart) {
  ++position.generation;
  arrived_ = 0;
  completed_barriers_ = 0;
  for (int rank = 0; rank < count_; ++rank) {
    block(rank).start(first);
    first.x += apart.x;
    first.y += apart.y;
  }
  for (bool advanced = true; advanced;) {
    advanced = false;
    for (int rank = 0; rank < count_; ++rank) {
      advanced |= block(rank).advance();
      if (block(rank).problem() != kOk) return give_up(block(rank).problem());
    }
  }
  int returned = 0;
  for (int rank = 0; rank < count_; ++rank) returned += block(rank).has_returned();
  if (returned == count_) return kOk;
  for (int rank = 0; rank < count_; ++rank) block(rank).describe_diverged();
  return give_up(kMisused);
}

inline int64_t Cluster::arrive() {
  const int64_t barrier = completed_barriers_;
  if (++arrived_ == threads_) {
    arrived_ = 0;
    ++completed_barriers_;
    for (int rank = 0; rank < count_; ++rank) block(rank).release_from_cluster();
  }
  return barrier;
}

inline void Block::arrive_cluster() {
  int64_t& barrier = barriers_[current_->thread];
  if (barrier != kNoBarrier) fail("it arrives at a barrier of its cluster again before it waits");
  barrier = cluster_.arrive();
}

inline void Block::wait_cluster() {
  const int64_t barrier = std::exchange(barriers_[current_->thread], kNoBarrier);
  if (barrier == kNoBarrier) fail("it waits at a barrier of its cluster before it arrives");
  if (cluster_.completed_barriers() <= barrier) suspend(State::kWaitCluster, waiting_for_cluster_);
}

// Peers have shared memory from when they have started, which a barrier ensures, to their end.
inline void Block::check_peer(int rank) {
  if (rank < 0 || rank >= cluster_.blocks())
    fail("it reaches for block %d of its cluster of %d", rank, cluster_.blocks());
  if (cluster_.completed_barriers() == 0)
    fail("it reaches for block %d of its cluster before any barrier of theirs", rank);
  if (cluster_.block(rank).has_returned())
    fail("it reaches for block %d of its cluster, which has returned", rank);
}

inline void Block::check_prepared(const TransferBarrier& barrier) {
  if (barrier.prepared != TransferBarrier::kPrepared) fail("it uses a transfer barrier that none prepared");
}

inline void Block::expect_transfers(TransferBarrier& barrier, int bytes) {
  check_prepared(barrier);
  if (barrier.expects) fail("it expects transfers twice in one phase");
  barrier.expects = true;
  barrier.bytes += bytes;
  end_phase(barrier);
}

inline void Block::count_transfer(TransferBarrier& barrier, int bytes) {
  check_prepared(barrier);
  barrier.bytes -= bytes;
  end_phase(barrier);
}

// Ends the phase if nothing is still to come.
inline void Block::end_phase(TransferBarrier& barrier) {
  if (!barrier.expects || barrier.bytes != 0) return;
  barrier.expects = false;
  ++barrier.phases;
  cluster_.block(barrier.rank).release_from_transfers();
}

inline void Block::wait_transfers(TransferBarrier& barrier, int parity) {
  check_prepared(barrier);
  while (barrier.phases % 2 == parity) suspend(State::kWaitTransfers, waiting_for_transfers_);
}

inline const char* name_of(State state) {
  switch (state) {
    case State::kRunning:
      return "running";
    case State::kSyncBlock:
      return "at sync_block";
    case State::kWaitCluster:
      return "at wait_cluster";
    case State::kWaitTransfers:
      return "at wait_transfers";
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

inline int Block::source_lane(Shuffle mode, int lane, int operand, int width, int lanes) {
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

template <typename... Arguments>
void Block::say(const char* format, Arguments... arguments) const {
  const Point block = position.block, thread = position.thread;
  std::fprintf(stderr, "fusebuild host: kernel %s, block (%d, %d, %d), thread (%d, %d, %d): ", kernel_.name,
               block.x, block.y, block.z, thread.x, thread.y, thread.z);
  std::fprintf(stderr, format, arguments...);
  std::fputc('\n', stderr);
}

template <typename... Arguments>
void Block::fail(const char* format, Arguments... arguments) {
  say(format, arguments...);
  leave();
}

inline void Block::leave() {
  problem_ = kMisused;
  announce_switch(nullptr, scheduler_);
  fusebuild_switch_fiber(&current_->stack_pointer, scheduler_stack_pointer_);
  std::abort();  // nobody resumes a fiber of a block that is misused
}

inline void Block::describe_diverged() const {
  std::fprintf(stderr,
               "fusebuild host: kernel %s, block (%d, %d, %d): its threads diverged and wait forever:",
               kernel_.name, index_.x, index_.y, index_.z);
  const char* separator = " ";
  for (const State state : {State::kSyncBlock, State::kWaitCluster, State::kWaitTransfers, State::kSyncWarp,
                            State::kShuffle, State::kReturned}) {
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
}

}  // namespace fusebuild::host
