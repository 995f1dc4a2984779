// Ranks of a team in this process, for tests of symmetric memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/world.h"
#include "symmetric/symmetric_memory.h"
#include "waits.h"

namespace amdahl::test {

/// Regions of some ranks in this process, after their TeamFlags.
struct Team4 {
  explicit Team4(int size, size_t bytes, double timeout = 20) : devices(make_cpu_devices(size)) {
    std::vector<Device*> all;
    for (const auto& device : devices) all.push_back(device.get());
    for (Device* device : all) buffers.push_back(allocate_zeroed(*device, kOffset + bytes, soon()));
    for (int rank = 0; rank < size; ++rank)
      ranks.push_back(std::make_unique<CpuTeam>(memory_of_buffers(all, buffers, rank, timeout)));
  }
  /// Runs body(team) on a thread per rank.
  void run(const std::function<void(CpuTeam&)>& body) {
    run_rank_threads(
        static_cast<int>(ranks.size()), [&](int rank) { body(*ranks[static_cast<size_t>(rank)]); },
        [&](const Error&) {
          for (const auto& rank : ranks) rank->end_waits();
        });
  }

  static constexpr size_t kOffset = (sizeof(TeamFlags) + 255) / 256 * 256;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::shared_ptr<Buffer>> buffers;
  std::vector<std::unique_ptr<CpuTeam>> ranks;
};

}  // namespace amdahl::test
