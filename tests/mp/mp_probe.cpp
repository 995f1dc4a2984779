// One rank of a multi-process world, for the scripts in this folder: mp_probe MODE [TIMEOUT_SECONDS].
//   check     every collective against known results         loop      all-reduces until something happens (small:
//   short) mismatch  rank 1 calls another size (kind: a broadcast;   fail      rank 1 throws, the others wait
//             pair: receives less than rank 0 sends)          late      rank 1 comes late to every call
//   stuck     the last rank comes to no more calls
//   busy      all compute, none looks at a stream             bench     prints latencies and bandwidths
//   leave     rank 1 ends its work before the others (leave-reduce: between all-reduces; leave-root: rank 0)
//   connect   the last rank joins but never connects          barrier   exchanges until something happens
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "comm/world.h"
#include "device/cpu_stream.h"
#include "symmetric/symmetric_collectives.h"
#include "symmetric/symmetric_heap.h"

extern char** environ;

namespace amdahl {
namespace {

using Clock = std::chrono::steady_clock;

struct Probe {
  RendezvousStore& store;
  Communicator& comm;
  Stream& stream;
  double timeout_seconds;

  int rank() const { return comm.rank(); }
  int world() const { return comm.world_size(); }
  void sync() { stream.synchronize(Deadline::after_seconds(timeout_seconds + 30)); }
};

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** each = environ; *each; ++each)
    if (const char* equals = std::strchr(*each, '='))
      variables[std::string(static_cast<const char*>(*each), equals)] = equals + 1;
  return variables;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Cause::check_failed, what);
}

std::vector<float> noise(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::normal_distribution<float> normal(0, 1000);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void check_all_reduce(Probe& probe, size_t count) {
  std::vector<float> expected = noise(0, count), data = noise(probe.rank(), count);
  for (int rank = 1; rank < probe.world(); ++rank) {
    const auto values = noise(rank, count);
    for (size_t i = 0; i < count; ++i) expected[i] += values[i];
  }
  probe.comm.all_reduce(data.data(), count, DType::f32, ReduceOp::sum, probe.stream);
  probe.sync();
  require(data == expected, fmt::format("all_reduce of {} is not the sum in rank order", count));
}

void check_moves(Probe& probe, size_t count) {
  const auto world = static_cast<size_t>(probe.world());
  const int root = probe.world() - 1, rank = probe.rank();
  std::vector<int64_t> sum(count, rank + 1), root_value(count, rank), part(count), all(count * world), own(count, rank);
  std::vector<int64_t> slices(rank == root ? count * world : 0);
  for (size_t i = 0; i < slices.size(); ++i) slices[i] = static_cast<int64_t>(i);
  probe.comm.reduce(sum.data(), count, DType::i64, ReduceOp::sum, root, probe.stream);
  probe.comm.broadcast(root_value.data(), count, DType::i64, root, probe.stream);
  probe.comm.all_gather(own.data(), all.data(), count, DType::i64, probe.stream);
  probe.comm.scatter(slices.data(), part.data(), count, DType::i64, root, probe.stream);
  std::vector<int64_t> everywhere(count * world, rank + 1);
  probe.comm.reduce_scatter(everywhere.data(), everywhere.data() + static_cast<size_t>(rank) * count, count, DType::i64,
                            ReduceOp::sum, probe.stream);
  probe.sync();
  for (size_t i = 0; i < everywhere.size(); ++i)
    require(
        everywhere[i] == (i / count == static_cast<size_t>(rank) ? probe.world() * (probe.world() + 1) / 2 : rank + 1),
        "reduce_scatter");
  require(sum == std::vector<int64_t>(count, rank == root ? probe.world() * (probe.world() + 1) / 2 : rank + 1),
          "reduce");
  require(root_value == std::vector<int64_t>(count, root), "broadcast");
  for (size_t i = 0; i < all.size(); ++i) require(all[i] == static_cast<int64_t>(i / count), "all_gather");
  for (size_t i = 0; i < count; ++i)
    require(part[i] == static_cast<int64_t>(static_cast<size_t>(rank) * count + i), "scatter");
}

void check_ring(Probe& probe) {
  const int right = (probe.rank() + 1) % probe.world(), left = (probe.rank() + probe.world() - 1) % probe.world();
  if (left == probe.rank()) return;
  auto other = probe.stream.device().make_stream("receive");
  std::vector<double> out(5000, probe.rank()), in(5000);
  probe.comm.send(out.data(), out.size(), DType::f64, right, probe.stream);
  probe.comm.recv(in.data(), in.size(), DType::f64, left, *other);
  probe.sync();
  other->synchronize(Deadline::after_seconds(30));
  require(in == std::vector<double>(5000, left), "send and recv");
}

/// Odd and even ranks, each from the last to the first; then those again.
void check_split(Probe& probe) {
  const Deadline deadline = Deadline::after_seconds(20);
  for (int round = 0; round < 2; ++round) {
    const auto part = probe.comm.split(probe.rank() % 2, -probe.rank(), deadline);
    std::vector<int> members;
    for (int rank = probe.world() - 1; rank >= 0; --rank)
      if (rank % 2 == probe.rank() % 2) members.push_back(rank);
    const auto messages = part->exchange(std::to_string(probe.rank()), deadline);
    require(messages.size() == members.size(), "members of a part");
    for (size_t i = 0; i < members.size(); ++i) require(messages[i] == std::to_string(members[i]), "order of a part");
    require(members[static_cast<size_t>(part->rank())] == probe.rank(), "rank in a part");
    std::vector<int64_t> all(members.size());
    int64_t own = probe.rank(), sum = probe.rank();
    part->all_gather(&own, all.data(), 1, DType::i64, probe.stream);
    part->all_reduce(&sum, 1, DType::i64, ReduceOp::sum, probe.stream);
    probe.sync();
    for (size_t i = 0; i < members.size(); ++i) require(all[i] == members[i], "all_gather in a part");
    require(sum == std::accumulate(members.begin(), members.end(), int64_t{0}), "all_reduce in a part");
    const auto single = part->split(probe.rank() == 0 ? -1 : part->rank(), 0, deadline);
    require((single == nullptr) == (probe.rank() == 0), "no part for a color below 0");
    require(!single || single->world_size() == 1, "a part of one rank");
    probe.comm.barrier(deadline);
  }
}

/// A symmetric heap of processes: everybody's number on every rank, and a sum on rank 0.
void check_symmetric(Probe& probe) {
  const auto world = static_cast<size_t>(probe.world());
  SymmetricHeap heap(probe.stream.device(), probe.comm, 1 << 16, probe.timeout_seconds);
  const auto row = heap.allocate<int64_t>(world);
  const auto counter = heap.allocate<uint64_t>(1);
  const int64_t own = probe.rank() + 100;
  for (int to = 0; to < probe.world(); ++to)
    heap.put(probe.stream, {row, static_cast<size_t>(probe.rank()), 1}, &own, to);
  heap.fetch_add(probe.stream, {counter, 0, 1}, 2, 0, nullptr);
  heap.barrier(probe.stream);
  uint64_t sum = 0;
  heap.get(probe.stream, &sum, {counter, 0, 1}, 0);
  probe.sync();
  for (size_t rank = 0; rank < world; ++rank)
    require(heap.local(row)[rank] == static_cast<int64_t>(rank) + 100, "put over processes");
  require(sum == 2 * world, "fetch_add over processes");
  heap.free(row);
}

/// Rank 3 stays away from its part, in which it is rank 1.
void run_split_late(Probe& probe) {
  const auto part = probe.comm.split(probe.rank() % 2, 0, Deadline::after_seconds(20));
  if (probe.rank() == 3) std::this_thread::sleep_for(std::chrono::seconds(60));
  float value = 1;
  part->all_reduce(&value, 1, DType::f32, ReduceOp::sum, probe.stream);
  probe.sync();
  if (probe.rank() % 2 == 0) part->exchange({}, Deadline::after_seconds(20));
  probe.comm.barrier(Deadline::after_seconds(30));
}

void run_check(Probe& probe) {
  for (const size_t count : {0, 1, 7, 1000, 2049, 100'003, 2'000'000}) check_all_reduce(probe, count);
  for (const size_t count : {0, 1, 63, 10'001}) check_moves(probe, count);
  check_ring(probe);
  for (int round = 0; round < 20; ++round) {
    const auto messages = probe.comm.exchange(fmt::format("{}:{}", probe.rank(), round), Deadline::after_seconds(20));
    for (int rank = 0; rank < probe.world(); ++rank)
      require(messages[static_cast<size_t>(rank)] == fmt::format("{}:{}", rank, round), "exchange");
  }
  // A group of the first ranks only, beside the world.
  if (probe.world() > 2 && probe.rank() < 2) {
    auto pair = make_gloo_communicator(probe.store, "pair", RankGroup::first(2, probe.rank()), probe.timeout_seconds);
    float value = 1;
    pair->all_reduce(&value, 1, DType::f32, ReduceOp::sum, probe.stream);
    probe.sync();
    require(value == 2, "all_reduce in a smaller group");
  }
  check_split(probe);
  check_symmetric(probe);
  probe.comm.barrier(Deadline::after_seconds(20));
}

void loop(Probe& probe, size_t count) {
  std::vector<float> data(count);
  for (int round = 0;; ++round) {
    probe.comm.all_reduce(data.data(), data.size(), DType::f32, ReduceOp::max, probe.stream);
    probe.sync();
    if (round == 5) {
      fmt::print("looping\n");
      std::fflush(stdout);
    }
  }
}

void run_loop(Probe& probe) { loop(probe, 1 << 16); }
void run_small(Probe& probe) { loop(probe, 256); }

void run_mismatch(Probe& probe) {
  std::vector<float> data(3000);
  probe.comm.all_reduce(data.data(), 3000, DType::f32, ReduceOp::sum, probe.stream);
  if (probe.rank() == 1)
    probe.comm.all_reduce(data.data(), 2999, DType::f32, ReduceOp::sum, probe.stream);
  else
    probe.comm.all_reduce(data.data(), 3000, DType::f32, ReduceOp::sum, probe.stream);
  probe.sync();
}

void run_mismatch_kind(Probe& probe) {
  std::vector<float> data(3000);
  if (probe.rank() == 1)
    probe.comm.broadcast(data.data(), 3000, DType::f32, 1, probe.stream);
  else
    probe.comm.all_reduce(data.data(), 3000, DType::f32, ReduceOp::sum, probe.stream);
  probe.sync();
}

void run_mismatch_pair(Probe& probe) {
  std::vector<float> data(3000);
  if (probe.rank() == 0) probe.comm.send(data.data(), 3000, DType::f32, 1, probe.stream);
  if (probe.rank() == 1) probe.comm.recv(data.data(), 2000, DType::f32, 0, probe.stream);
  probe.sync();
  probe.comm.barrier(Deadline::after_seconds(probe.timeout_seconds));
}

/// Long enough for the others to say what they wait for, call after call.
void run_late(Probe& probe) {
  std::vector<float> data(5, 1);
  for (int round = 0; round < 5; ++round) {
    if (probe.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const size_t count = static_cast<size_t>(round) + 1;
    probe.comm.all_reduce(data.data(), count, DType::f32, ReduceOp::max, probe.stream);
    probe.comm.broadcast(data.data(), count, DType::f32, 0, probe.stream);
    if (probe.rank() == 0) probe.comm.send(data.data(), count, DType::f32, 1, probe.stream);
    if (probe.rank() == 1) probe.comm.recv(data.data(), count, DType::f32, 0, probe.stream);
    probe.sync();
  }
  require(data == std::vector<float>(5, 1), "values of calls with a late rank");
}

void run_fail(Probe& probe) {
  std::vector<float> data(3000);
  if (probe.rank() == 1) throw Error(Cause::non_finite, "rank 1 met a NaN", {}, 1);
  probe.comm.all_reduce(data.data(), 3000, DType::f32, ReduceOp::sum, probe.stream);
  probe.sync();
}

/// The last rank's host thread never comes to a call, while its process is alive.
void run_stuck(Probe& probe) {
  std::vector<float> data(256);
  for (int round = 0;; ++round) {
    if (round == 3 && probe.rank() + 1 == probe.world()) std::this_thread::sleep_for(std::chrono::hours(1));
    probe.comm.all_reduce(data.data(), data.size(), DType::f32, ReduceOp::max, probe.stream);
    probe.sync();
  }
}

/// Every rank computes on its host thread and looks at no stream: only the failure handler can end it.
void run_busy(Probe&) {
  fmt::print("looping\n");
  std::fflush(stdout);
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void run_barrier(Probe& probe) {
  for (int round = 0;; ++round) {
    probe.comm.barrier(Deadline::after_seconds(probe.timeout_seconds));
    if (round == 5) {
      fmt::print("looping\n");
      std::fflush(stdout);
    }
  }
}

void say_left() {
  fmt::print("left\n");
  std::fflush(stdout);
}

/// Rank 1 ends its work after a few rounds; the others go on with exchanges, or with all-reduces.
void run_leave(Probe& probe) {
  for (int round = 0; round < 3 || probe.rank() != 1; ++round)
    probe.comm.barrier(Deadline::after_seconds(probe.timeout_seconds));
  say_left();
}

void run_leave_reduce(Probe& probe) {
  std::vector<float> data(256);
  for (int round = 0; round < 3 || probe.rank() != 1; ++round) {
    probe.comm.all_reduce(data.data(), data.size(), DType::f32, ReduceOp::max, probe.stream);
    probe.sync();
  }
  say_left();
}

/// Rank 0 ends its work; the others wait for its decision.
void run_leave_root(Probe& probe) {
  probe.comm.barrier(Deadline::after_seconds(probe.timeout_seconds));
  if (probe.rank() == 0) return say_left();
  probe.store.get("decision", 0, Deadline::after_seconds(60 * probe.timeout_seconds));
}

void run_bench(Probe& probe) {
  for (const size_t count : {1ul, 256ul, 1024ul, 262144ul, 6885376ul}) {
    std::vector<float> data(count);
    const int rounds = count > 100'000 ? 20 : 500;
    for (int repeat = 0; repeat < 2; ++repeat) {
      probe.comm.barrier(Deadline::after_seconds(20));
      const auto start = Clock::now();
      for (int round = 0; round < rounds; ++round)
        probe.comm.all_reduce(data.data(), count, DType::f32, ReduceOp::sum, probe.stream);
      probe.sync();
      const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / rounds;
      if (probe.rank() == 0) fmt::print("{} bytes: {:.1f} us, {:.2f} GB/s\n", count * 4, us, double(count) * 4e-3 / us);
    }
  }
}

const std::map<std::string, void (*)(Probe&)> kModes{
    {"check", run_check},
    {"loop", run_loop},
    {"mismatch", run_mismatch},
    {"mismatch-kind", run_mismatch_kind},
    {"fail", run_fail},
    {"busy", run_busy},
    {"bench", run_bench},
    {"mismatch-pair", run_mismatch_pair},
    {"late", run_late},
    {"split-late", run_split_late},
    {"split-mpi", check_split},
    {"barrier", run_barrier},
    {"small", run_small},
    {"stuck", run_stuck},
    {"leave", run_leave},
    {"leave-reduce", run_leave_reduce},
    {"leave-root", run_leave_root},
};

[[noreturn]] void report_and_exit(const Error& error) {
  fmt::print(stderr, "{}\n", error.line());
  std::fflush(nullptr);
  _exit(exit_code(error.cause()));
}

/// A mode with the suffix "-symmetric" uses collectives in symmetric memory.
int run(std::string mode, double timeout_seconds) {
  constexpr std::string_view kSymmetric = "-symmetric";
  const bool symmetric = mode.ends_with(kSymmetric);
  if (symmetric) mode.resize(mode.size() - kSymmetric.size());
  std::unique_ptr<RendezvousStore> store;
  try {
    const LaunchContext launch = detect_launch(environment());
    fmt::print("rank {} of {} by {}, pid {}\n", launch.rank, launch.world_size, launch.family, getpid());
    std::fflush(stdout);
    store = make_rendezvous(launch, timeout_seconds);
    store->set_failure_handler(report_and_exit);
    if (mode == "connect") {
      fmt::print("looping\n");
      std::fflush(stdout);
      while (launch.rank == launch.world_size - 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    const auto devices = make_cpu_devices(1);
    const auto make = mode.ends_with("-mpi") ? make_mpi_communicator : make_gloo_communicator;
    const RankGroup world = RankGroup::first(launch.world_size, launch.rank);
    auto comm = make(*store, "world", world, timeout_seconds);
    if (symmetric) comm = make_symmetric_communicator(*devices[0], std::move(comm), world, timeout_seconds, {});
    auto stream = devices[0]->make_stream("comm");
    Probe probe{*store, *comm, *stream, timeout_seconds};
    kModes.at(mode)(probe);
    store->leave();
  } catch (const Error& error) {
    if (store) store->report_failure(error);
    report_and_exit(error);
  }
  return 0;
}

}  // namespace
}  // namespace amdahl

int main(int argc, char** argv) {
  return amdahl::run(argc > 1 ? argv[1] : "check", argc > 2 ? std::atof(argv[2]) : 20);
}
