// Communicators whose collectives run in symmetric memory, and the choice of their algorithms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

/// How an all-reduce exchanges its data.
enum class SymmetricAlgorithm {
  automatic,  // by size, see SymmetricOptions
  flagged,    // one shot; every 4 bytes carry a 4-byte flag, so that no separate signal is needed (LL)
  lines,      // one shot; 120 bytes of data and an 8-byte flag per line of 128 bytes (LL128), between GPUs
  one_shot,   // every rank pushes its data to all, then a signal; each adds up everything
  two_shot,   // every rank adds up its share, then all read the shares
};
/// "auto", "ll", "ll128", "one-shot", "two-shot".
std::string_view to_string(SymmetricAlgorithm algorithm);

/// Every rank passes the same.
struct SymmetricOptions {
  SymmetricAlgorithm all_reduce = SymmetricAlgorithm::automatic;
  size_t flagged_bytes = 16;         // automatic: up to this payload flagged,
  size_t line_bytes = 0;             // then up to this in lines, where the ranks can,
  size_t one_shot_bytes = 32 << 10;  // then up to this one-shot, then two-shot; the defaults are those of CPU ranks
  size_t one_shot_bytes_of_many = SIZE_MAX;  // between more than two ranks not above this: every rank sends to all
  uint64_t first_epoch = 0;                  // number of the round before the first one
  bool direct = true;                        // GPUs of one process access each other's buffers in large calls
  /// Of a kernel between GPUs, at most; 0: as many as the smallest device allows, most_collective_blocks.
  int blocks = 0;
};

/// The default sizes for ranks of a backend; those of GPUs were measured between two H200s and four H100s, and a table
/// of the machine is better (OneSidedChoice).
SymmetricOptions default_symmetric_options(BackendKind backend);

/// Blocks that a collective may have on a GPU with that many multiprocessors: the kernels of four communicators can run
/// beside each other, one block per multiprocessor.
int most_collective_blocks(int sm_count);

/// The algorithm of an all-reduce of that many bytes, never automatic.
SymmetricAlgorithm choose(const SymmetricOptions& options, size_t bytes);

/// Rounds after which the flags of flagged messages begin anew.
inline constexpr uint64_t kFlagPeriod = 0xffffffff;

/// Communicators of the ranks of this process, in rank order, on CPU or GPU devices: collectives in symmetric memory
/// between the devices' ranks, everything else by `controls`, communicators of the same ranks. Errors as check_team;
/// Error{environment_missing} for GPUs without access to each other's memory.
std::vector<std::unique_ptr<Communicator>> make_symmetric_communicators(
    const std::vector<Device*>& devices, std::vector<std::unique_ptr<Communicator>> controls, double timeout_seconds,
    const SymmetricOptions& options);
/// This process's communicator. Collective over the ranks of `control`, blocks the host. `job`: their ranks in the job.
std::unique_ptr<Communicator> make_symmetric_communicator(Device& device, std::unique_ptr<Communicator> control,
                                                          const RankGroup& job, double timeout_seconds,
                                                          const SymmetricOptions& options);

}  // namespace amdahl
