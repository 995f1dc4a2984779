// How many bytes a training needs on one device, before anything is allocated.
#pragma once

#include <optional>
#include <string>

#include "train/trainer_options.h"

namespace amdahl {

class Communicator;
class Device;

/// Bytes on one device, by what they hold.
struct MemoryParts {
  int64_t parameters = 0, gradients = 0;
  int64_t optimizer = 0;    // state of the optimizer, of what this rank updates
  int64_t activations = 0;  // of all layers of a micro-batch, with their gradients; parameters in the compute type
  int64_t workspace = 0;    // temporary memory of layers and GEMMs
  int64_t data = 0;         // batches, or the whole data set
  int64_t total() const { return parameters + gradients + optimizer + activations + workspace + data; }
};

/// Whether rows are images that do not all begin at multiples of 16 bytes, as cuDNN's convolutions read them.
bool has_unaligned_images(const ModelSpec& model);

/// The memory of a Trainer with these options on its first rank, which has the most. `data` is what it gets from rank 0
/// each step; callers add what they hold themselves.
MemoryParts trainer_memory(const TrainerOptions& options, BackendKind backend, MathMode math);

/// `parts` with the memory of the communicators that a model divided by `plan` makes from `world`, as workspace.
MemoryParts with_groups(MemoryParts parts, const TrainerOptions& options, const Communicator& world);

/// "parameters 218 kB, gradients 218 kB, optimizer 435 kB, ..."
std::string memory_text(const MemoryParts& parts);

/// Error{out_of_memory} with the parts and what would need less when `sharing` devices, each of which needs `parts`, do
/// not fit into the memory that is free now; else nothing. The devices of a CPU share one memory.
std::optional<Error> lacking_memory(Device& device, int sharing, const TrainerOptions& options,
                                    const MemoryParts& parts);
/// Throws that error.
void require_device_memory(Device& device, int sharing, const TrainerOptions& options, const MemoryParts& parts);

}  // namespace amdahl
