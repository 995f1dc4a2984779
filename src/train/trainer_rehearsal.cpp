// What a Trainer on several GPUs does before its first step.
#include "train/trainer.h"

namespace amdahl {

// Forward and backward of a step without communication, which change nothing that a step reads. Libraries load kernels
// at their first use and operations time their alternatives then. Loading waits for kernels that run, and those of a
// collective or a message wait for the other devices, whose threads wait in the library for the end of the loading.
void Trainer::rehearse(const float* features, const float* targets) {
  if (rank_.device.backend() != BackendKind::cuda || rank_.world_size == 1) return;
  std::vector<std::unique_ptr<Buffer>> kept;
  const std::vector<NamedBuffer> buffers = divided_ ? divided_->buffers() : model_.buffers();
  for (const NamedBuffer& buffer : buffers) {  // running statistics, which a forward pass changes
    const size_t bytes = static_cast<size_t>(buffer.count) * sizeof(float);
    kept.push_back(rank_.device.allocate(bytes));
    rank_.device.copy_within(*compute_, kept.back()->data(), buffer.data, bytes);
  }
  for (const auto& staged : {staged_features_.get(), staged_targets_.get()})  // no step has filled them
    if (staged) rank_.device.fill_zero(*compute_, staged->data(), staged->bytes());
  if (divided_) divided_->silence(true);
  enqueue_part(features, targets, StepPart::backward);
  if (divided_) divided_->silence(false);
  for (size_t i = 0; i < buffers.size(); ++i)
    rank_.device.copy_within(*compute_, buffers[i].data, kept[i]->data(), kept[i]->bytes());
  synchronize();
  rank_.communicator.barrier(deadline());
}

}  // namespace amdahl
