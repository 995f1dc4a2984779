#undef _FORTIFY_SOURCE  // it forbids longjmp between stacks
#include "emulator.h"

#include <csetjmp>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "cuda_builtins.h"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace amdahl::emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;

struct Copy {
  std::byte* to;
  const std::byte* from;  // null: zeros
  size_t bytes;
  void run() const {
    if (from)
      std::memcpy(to, from, bytes);
    else
      std::memset(to, 0, bytes);
  }
};

struct Fiber;

/// A barrier of `count` fibers.
struct Barrier {
  int count = 0, arrived = 0;
  std::vector<Fiber*> waiting;
};

struct Warp {
  Barrier barrier;
  const char* instruction = nullptr;
  WarpOperands operands = {};
};

struct Block {
  Block(int number, int threads, size_t shared_bytes) : index(number), running(threads), shared(shared_bytes) {
    barrier.count = threads;
    warps.resize(static_cast<size_t>((threads + kWarpLanes - 1) / kWarpLanes));
    for (Warp& warp : warps) warp.barrier.count = kWarpLanes;
  }
  int index, running;  // threads that have not ended
  GuardedMemory shared;
  Barrier barrier;
  std::vector<Warp> warps;
};

struct Fiber {
  GuardedMemory stack{kStackBytes};
  ucontext_t start = {};
  jmp_buf place = {};
  bool started = false;
  Block* block = nullptr;
  int thread = 0;
  const char* waits_at = "";
  uint64_t cluster_phase = 0;
  bool arrived_at_cluster = false;
  std::vector<Copy> open_group;
  std::deque<std::vector<Copy>> groups;

  Warp& warp() const { return block->warps[static_cast<size_t>(thread / kWarpLanes)]; }
  int lane() const { return thread % kWarpLanes; }
};

/// The cluster that runs at present.
struct Cluster {
  const Launch* launch = nullptr;
  const std::function<void(std::byte*)>* kernel = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Fiber*> ready;
  Fiber* current = nullptr;
  int running = 0;  // fibers that have not ended
  int arrived = 0;  // at the cluster's barrier
  uint64_t phase = 0;
  std::vector<Fiber*> waiting;  // at the cluster's barrier
  std::mt19937_64 random;
  uint64_t turns = 0;
  int late = 0;  // a block, or a warp after the blocks
  std::exception_ptr failure;
  jmp_buf caller = {};
};
Cluster* cluster = nullptr;

[[noreturn]] void fail(const std::string& what) {
  const Fiber& f = *cluster->current;
  throw std::runtime_error(what + " (block " + std::to_string(f.block->index) + ", thread " + std::to_string(f.thread) +
                           ")");
}

void fiber_main();

/// Whether a fiber belongs to the block, or the warp of all blocks, that lags behind at present.
bool lags(const Fiber& fiber) {
  const int warp = fiber.thread / kWarpLanes, num_blocks = static_cast<int>(cluster->blocks.size());
  return cluster->late < num_blocks ? fiber.block == cluster->blocks[static_cast<size_t>(cluster->late)].get()
                                    : warp == cluster->late - num_blocks;
}

/// A fiber drawn at random; those that lag only if few others are ready. A missing barrier shows when what it should
/// wait for is late.
Fiber* take_next() {
  std::vector<Fiber*>& ready = cluster->ready;
  if (cluster->launch->seed != 0) {
    constexpr uint64_t kTurns = 4096;  // until others lag
    constexpr int kDraws = 16;
    const auto choices = cluster->blocks.size() + static_cast<size_t>(cluster->launch->threads / kWarpLanes);
    if (cluster->turns++ % kTurns == 0) cluster->late = static_cast<int>(cluster->random() % choices);
    size_t drawn = cluster->random() % ready.size();
    for (int draw = 1; draw < kDraws && lags(*ready[drawn]); ++draw) drawn = cluster->random() % ready.size();
    std::swap(ready[drawn], ready.back());
  }
  Fiber* const next = ready.back();
  ready.pop_back();
  return next;
}

[[noreturn]] void resume(Fiber& next) {
  cluster->current = &next;
  threadIdx.x = static_cast<unsigned>(next.thread);
  blockIdx.x = static_cast<unsigned>(next.block->index);
  if (next.started) _longjmp(next.place, 1);
  next.started = true;
  getcontext(&next.start);
  next.start.uc_stack.ss_sp = next.stack.data();
  next.start.uc_stack.ss_size = next.stack.bytes();
  next.start.uc_link = nullptr;
  makecontext(&next.start, fiber_main, 0);
  setcontext(&next.start);
  std::abort();
}

/// Describes where the fibers wait that nothing will wake.
std::string list_waits(const std::vector<std::unique_ptr<Fiber>>& fibers) {
  std::map<std::string, int> counts;
  for (const auto& fiber : fibers)
    if (*fiber->waits_at) ++counts[fiber->waits_at];
  std::string text = "the threads wait in vain:";
  for (const auto& [place, count] : counts) text += " " + std::to_string(count) + " in " + place;
  return text;
}

/// Leaves this fiber until it is in `ready` again.
void wait_in(const char* place) {
  Fiber& own = *cluster->current;
  own.waits_at = place;
  if (_setjmp(own.place) == 0) {
    if (cluster->ready.empty()) _longjmp(cluster->caller, 1);
    resume(*take_next());
  }
  cluster->current->waits_at = "";
}

void wake(std::vector<Fiber*>& waiting) {
  cluster->ready.insert(cluster->ready.end(), waiting.begin(), waiting.end());
  waiting.clear();
}

/// Waits until all fibers of the barrier are here; the last one calls `last` first.
template <class Last>
void wait_at(Barrier& barrier, const char* place, const Last& last) {
  if (++barrier.arrived < barrier.count) {
    barrier.waiting.push_back(cluster->current);
    return wait_in(place);
  }
  last();
  barrier.arrived = 0;
  wake(barrier.waiting);
}

void fiber_main() {
  try {
    (*cluster->kernel)(cluster->current->block->shared.data());
    if (cluster->current->arrived_at_cluster) fail("a thread ends between arrival and wait at the cluster's barrier");
    if (!cluster->current->open_group.empty() || !cluster->current->groups.empty())
      fail("a thread ends without waiting for its copies");
    Block& block = *cluster->current->block;  // peers may not read the memory of a block that has left
    if (--block.running == 0) std::memset(block.shared.data(), 0xff, block.shared.bytes());
  } catch (...) {
    cluster->failure = std::current_exception();
  }
  if (--cluster->running == 0 || cluster->failure || cluster->ready.empty()) _longjmp(cluster->caller, 1);
  resume(*take_next());
}

/// Runs the fibers until all have ended or none can go on.
__attribute__((noinline)) void run_fibers() {
  if (_setjmp(cluster->caller) == 0) resume(*take_next());
}

void run_cluster(const Launch& launch, const std::function<void(std::byte*)>& kernel, int first_block,
                 std::vector<std::unique_ptr<Fiber>>& fibers) {
  Cluster own;
  cluster = &own;
  own.launch = &launch, own.kernel = &kernel;
  own.random.seed(launch.seed + static_cast<uint64_t>(first_block));
  for (int i = 0; i < launch.cluster; ++i)
    own.blocks.push_back(std::make_unique<Block>(first_block + i, launch.threads, launch.shared_bytes));
  own.running = launch.cluster * launch.threads;
  for (int i = 0; i < own.running; ++i) {
    Fiber& fiber = *fibers[static_cast<size_t>(i)];
    fiber.block = own.blocks[static_cast<size_t>(i / launch.threads)].get();
    fiber.thread = i % launch.threads;
    fiber.started = fiber.arrived_at_cluster = false;
    fiber.waits_at = "";
    fiber.cluster_phase = 0;
    fiber.open_group.clear(), fiber.groups.clear();
    own.ready.push_back(&fiber);
  }
  run_fibers();
  cluster = nullptr;
  if (own.failure) std::rethrow_exception(own.failure);
  if (own.running > 0) throw std::runtime_error(list_waits(fibers));
}

}  // namespace

void run(const Launch& launch, const std::function<void(std::byte*)>& kernel) {
  if (cluster) throw std::runtime_error("a kernel runs already");
  if (launch.threads % kWarpLanes != 0 || launch.blocks % launch.cluster != 0)
    throw std::runtime_error("blocks of whole warps and clusters of whole blocks are needed");
  blockDim = {static_cast<unsigned>(launch.threads), 1, 1};
  gridDim = {static_cast<unsigned>(launch.blocks), 1, 1};
  threadIdx = blockIdx = {};
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int i = 0; i < launch.threads * launch.cluster; ++i) fibers.push_back(std::make_unique<Fiber>());
  for (int block = 0; block < launch.blocks; block += launch.cluster) run_cluster(launch, kernel, block, fibers);
}

GuardedMemory::GuardedMemory(size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t rounded = (bytes + 127) / 128 * 128, inside = (rounded + page - 1) / page * page;
  mapped_ = inside + 2 * page;
  void* const mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::runtime_error("no memory for the emulator");
  mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(mapping_ + page, inside, PROT_READ | PROT_WRITE) != 0)
    throw std::runtime_error("no guard pages for the emulator");
  data_ = mapping_ + page + inside - rounded;
  if (bytes < kStackBytes) std::memset(data_, 0xff, bytes);  // not a stack: that would touch all of it
}

GuardedMemory::~GuardedMemory() { munmap(mapping_, mapped_); }

void warp_instruction(const char* name, const void* in, void* out, void (*compute)(const WarpOperands&)) {
  const Fiber& own = *cluster->current;
  Warp& warp = own.warp();
  if (warp.barrier.arrived == 0) warp.instruction = name;
  if (warp.instruction != name && std::strcmp(warp.instruction, name) != 0)
    fail(std::string("lanes of a warp are in ") + warp.instruction + " and in " + name);
  const auto lane = static_cast<size_t>(own.lane());
  warp.operands.in[lane] = in, warp.operands.out[lane] = out;
  wait_at(warp.barrier, name, [&] {
    if (compute) compute(warp.operands);
  });
}

void sync_warp() { warp_instruction("__syncwarp", nullptr, nullptr, nullptr); }

void sync_block() {
  wait_at(cluster->current->block->barrier, "__syncthreads", [] {});
}

void arrive_at_cluster() {
  Fiber& own = *cluster->current;
  if (own.arrived_at_cluster) fail("a thread arrives twice at the cluster's barrier");
  own.arrived_at_cluster = true;
  own.cluster_phase = cluster->phase;
  if (++cluster->arrived < cluster->launch->cluster * cluster->launch->threads) return;
  cluster->arrived = 0;
  ++cluster->phase;
  wake(cluster->waiting);
}

void wait_for_cluster() {
  Fiber& own = *cluster->current;
  if (!own.arrived_at_cluster) fail("a thread waits at the cluster's barrier before it arrives");
  if (own.cluster_phase == cluster->phase) {
    cluster->waiting.push_back(&own);
    wait_in("the cluster's barrier");
  }
  cluster->current->arrived_at_cluster = false;
}

int cluster_rank() { return cluster->current->block->index % cluster->launch->cluster; }
int cluster_size() { return cluster->launch->cluster; }

void check_shared(const void* pointer, size_t bytes) {
  const GuardedMemory& shared = cluster->current->block->shared;
  const auto* at = static_cast<const std::byte*>(pointer);
  if (at < shared.data() || at + bytes > shared.data() + shared.bytes())
    fail("an address outside of the block's shared memory");
}

std::byte* in_block(const void* pointer, int rank) {
  check_shared(pointer, 1);
  if (rank < 0 || rank >= cluster_size()) fail("no block of that rank in the cluster");
  const std::ptrdiff_t offset = static_cast<const std::byte*>(pointer) - cluster->current->block->shared.data();
  return cluster->blocks[static_cast<size_t>(rank)]->shared.data() + offset;
}

void start_copy(void* to, const void* from, size_t bytes) {
  check_shared(to, bytes);
  if (reinterpret_cast<uintptr_t>(to) % bytes != 0 || reinterpret_cast<uintptr_t>(from) % bytes != 0)
    fail("an asynchronous copy with a misaligned address");
  const Copy copy{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes};
  if (cluster->launch->seed % 2 == 1 && cluster->random() % 2 == 0) return copy.run();  // early; else as late as can be
  cluster->current->open_group.push_back(copy);
}

void commit_copies() {
  Fiber& own = *cluster->current;
  own.groups.push_back(std::move(own.open_group));
  own.open_group.clear();
}

void wait_for_copies(size_t pending) {
  std::deque<std::vector<Copy>>& groups = cluster->current->groups;
  for (; groups.size() > pending; groups.pop_front())
    for (const Copy& copy : groups.front()) copy.run();
}

}  // namespace amdahl::emulator
