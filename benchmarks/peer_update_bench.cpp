// Prints what one update across GPUs costs by the number of its thread blocks: strategy zero1's kernel alone, every
// rank owning an equal part. Usage: peer_update_bench [megabytes of parameters]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "comm/world.h"
#include "ops/ops.h"

namespace {

using namespace amdahl;

constexpr int kUpdates = 200;

struct Rank {
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Stream> stream;
  std::shared_ptr<Buffer> state, step, params, grads, flags;
};

Deadline soon() { return Deadline::after_seconds(30); }

std::vector<Rank> make_ranks(int count, size_t bytes) {
  std::vector<Rank> ranks;
  for (int i = 0; i < count; ++i) {
    Rank rank;
    rank.device = std::move(make_cuda_devices({i}).front());
    rank.ops = make_cuda_ops(*rank.device, {});
    rank.stream = rank.device->make_stream("comm");
    const auto zeroed = [&](size_t size) { return allocate_zeroed(*rank.device, size, soon()); };
    rank.params = zeroed(bytes), rank.grads = zeroed(bytes), rank.flags = zeroed(kTeamFlagBytes);
    rank.state = zeroed(2 * bytes);
    rank.step = zeroed(sizeof(uint64_t));
    ranks.push_back(std::move(rank));
  }
  for (Rank& rank : ranks)
    for (Rank& peer : ranks)
      if (const Feasibility reach = rank.device->reach(*peer.device); !reach.ok)
        throw Error(Cause::usage, reach.reason);
  return ranks;
}

double update_us(std::vector<Rank>& ranks, int64_t floats, int blocks) {
  const int world = static_cast<int>(ranks.size());
  std::vector<double> us(ranks.size());
  run_rank_threads(
      world,
      [&](int index) {
        Rank& rank = ranks[static_cast<size_t>(index)];
        rank.device->bind_thread();
        const auto shared = [&](std::shared_ptr<Buffer> Rank::*buffer) {
          std::vector<Device*> devices;
          std::vector<std::shared_ptr<Buffer>> buffers;
          for (const Rank& each : ranks) devices.push_back(each.device.get()), buffers.push_back(each.*buffer);
          return memory_of_buffers(devices, buffers, index, 20);
        };
        const auto updater =
            rank.ops->optimizer().join_peers({shared(&Rank::params), shared(&Rank::grads), shared(&Rank::flags)});
        const int64_t part = floats / world / 64 * 64;
        PeerAdam update;
        update.begin = index * part;
        update.end = update.begin + part;
        update.num_blocks = blocks;
        float* state = rank.state->as<float>();
        update.adam = {nullptr, nullptr, state,  state + part, part, rank.step->as<uint64_t>(),
                       1e-3f,   0.9f,    0.999f, 1e-8f};
        auto start = rank.device->make_event(), end = rank.device->make_event();
        for (int i = 0; i < 20; ++i) updater->adam(*rank.stream, update);
        rank.stream->stamp(*start);
        for (int i = 0; i < kUpdates; ++i) updater->adam(*rank.stream, update);
        rank.stream->stamp(*end);
        rank.stream->synchronize(soon());
        us[static_cast<size_t>(index)] = rank.device->elapsed_us(*start, *end) / kUpdates;
      },
      [](const Error&) {});
  return *std::max_element(us.begin(), us.end());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const double megabytes = argc > 1 ? std::atof(argv[1]) : 27.5;
    const auto floats = static_cast<int64_t>(megabytes * 1e6 / sizeof(float));
    const int present = static_cast<int>(list_cuda_devices().size());
    for (int world = 2; world <= present; world += world < 4 ? 1 : 2) {
      std::vector<Rank> ranks = make_ranks(world, static_cast<size_t>(floats) * sizeof(float));
      for (int blocks : {8, 16, 24, 32, 48, 64, 96, 132}) {
        const double us = update_us(ranks, floats, blocks);
        const double link_bytes = 2.0 * (world - 1) / world * static_cast<double>(floats) * sizeof(float);
        fmt::print("{} GPUs {:6.1f} MB {:4d} blocks {:8.1f} us {:6.1f} GB/s each way\n", world, megabytes, blocks, us,
                   link_bytes / us * 1e-3);
      }
    }
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.line());
    return 1;
  }
}
