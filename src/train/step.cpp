#include "train/step.h"

#include <fmt/format.h>

#include "device/profiler_ranges.h"

namespace amdahl {
namespace {

/// " transformer_block"; empty in a model of dense layers alone.
std::string kind_text(const ModelSpec& model, size_t layer) {
  return model.is_mlp() ? std::string() : fmt::format(" {}", row_of(model.layers[layer].kind).name);
}

// Without communication no update is fused into backward either.
BackwardOptions backward_options(TrainingParts& parts, const StepWork& work, bool last) {
  StepStamps* const stamps = work.stamps;
  BackwardOptions options{
      parts.order,
      parts.second.get(),
      &parts.pieces,
      work.communication ? parts.sync->update_in_backward() : nullptr,
      parts.sync->reserved_sms(),
      [&parts, stamps, sends = last && work.communication](int64_t begin, int64_t end, Stream& stream) {
        if (sends) parts.sync->gradient_ready(begin, end, stream, stamps);
      }};
  if (stamps && stamps->detailed)
    options.around = [&parts, stamps](bool begins, const char* product, size_t layer, Stream& stream) {
      const char* name = &stream == parts.second.get() ? "weights" : "compute";
      if (begins)
        stamps->begin_piece(stream, name,
                            fmt::format("{} {}{}", product, layer, kind_text(parts.options.model, layer)));
      else
        stamps->end_piece(stream);
    };
  return options;
}

void enqueue_micro_batches(TrainingParts& parts, const float* features, const float* targets, const StepWork& work) {
  const ParallelPlan& plan = parts.options.plan;
  const bool whole = parts.row.full_batch_everywhere;
  const int dp_rank = parts.divided.place().dp;
  Stream& compute = *parts.compute;
  StepStamps* const stamps = work.stamps;
  const RowRange first = micro_batch_rows(plan, whole, dp_rank, 0);
  const int64_t count = num_micro_batches(plan, dp_rank);
  for (int64_t micro = 0; micro < count; ++micro) {
    const RowRange rows = micro_batch_rows(plan, whole, dp_rank, micro);
    const int64_t skip = rows.begin - first.begin;
    const BatchView batch{.features = aligned_rows(parts, features, skip, rows.rows()),
                          .targets = targets + skip * parts.options.model.target_width(),
                          .rows = rows.rows(),
                          .row_offset = rows.begin,
                          .global_rows = plan.global_batch};
    const bool accumulate = micro > 0 && plan.virtual_shards == 0;
    if (stamps && micro == 0) stamps->start(compute, stamps->forward);
    if (stamps && stamps->detailed) stamps->begin_piece(compute, "compute", "forward");
    {
      const ProfilerRange range("forward");
      parts.model.forward(compute, batch, true);
      parts.model.loss(compute, batch, accumulate);
    }
    if (stamps && stamps->detailed) stamps->end_piece(compute);
    if (stamps && micro == 0) stamps->end(compute, stamps->forward);
    if (!work.backward) continue;
    const ProfilerRange range("backward");
    parts.model.backward(compute, batch, accumulate, backward_options(parts, work, micro + 1 == count));
    if (plan.virtual_shards > 0) parts.sync->micro_batch_done(micro);
  }
}

void enqueue_stages(TrainingParts& parts, const float* features, const float* targets, const StepWork& work) {
  Stream& compute = *parts.compute;
  StepStamps* const stamps = work.stamps;
  StageStamps* const stage_stamps = work.stage_stamps;
  StageHooks hooks;
  if (work.communication)
    hooks.ready = [&parts, stamps](int64_t begin, int64_t end, Stream& stream) {
      parts.sync->gradient_ready(begin, end, stream, stamps);
    };
  if (stamps && stamps->detailed)
    hooks.around = [&compute, stamps](bool begins, const Action& action) {
      if (begins)
        stamps->begin_piece(compute, "compute",
                            fmt::format("{} {} of stage {}", to_string(action.kind), action.micro_batch, action.stage));
      else
        stamps->end_piece(compute);
    };
  if (stage_stamps) {
    stage_stamps->begin_step();
    hooks.around = [&compute, stage_stamps](bool begins, const Action& action) {
      stage_stamps->action(begins, action, compute);
    };
    hooks.waits = [&compute, stage_stamps](bool begins, const Action&) { stage_stamps->wait(begins, compute); };
  }
  parts.divided.enqueue_gradients(features, targets, hooks);
}

// If rank 0 holds the batch, `features` and `targets` are set to this rank's share.
void enqueue_input(TrainingParts& parts, const float*& features, const float*& targets, const StepWork& work) {
  if (!parts.row.data_on_root) return parts.sync->begin_step({}, nullptr, nullptr);
  float* const staged_features = parts.staged_features->as<float>();
  float* const staged_targets = parts.staged_targets->as<float>();
  if (work.input) {
    const int64_t rows = parts.options.plan.global_batch;
    if (work.stamps) work.stamps->start(*parts.compute, work.stamps->input);
    parts.sync->begin_step({features, targets, rows, 0, rows}, staged_features, staged_targets);
    if (work.stamps) work.stamps->end(*parts.compute, work.stamps->input);
  }
  features = staged_features;
  targets = staged_targets;
}

void enqueue_update(TrainingParts& parts, const StepWork& work) {
  if (!work.update) return parts.sync->end_pass();
  if (work.communication) {
    const ProfilerRange range("finish step");  // waits for buckets, runs the optimizer
    parts.sync->finish_step(work.stamps);
  } else {
    parts.sync->update_alone();
  }
  const LossScale* scale = parts.optimizer->loss_scale();  // a step that it skips does not count
  parts.rank.ops->elementwise().increment(*parts.compute, parts.model.step_counter(), scale ? &scale->skip : nullptr);
}

}  // namespace

const float* aligned_rows(TrainingParts& parts, const float* features, int64_t first, int64_t rows) {
  const int64_t width = parts.options.model.input_width;
  const float* const begin = features + first * width;
  Buffer* const aligned = parts.aligned_features.get();
  if (!aligned || reinterpret_cast<uintptr_t>(begin) % 16 == 0) return begin;
  parts.rank.device.copy_within(*parts.compute, aligned->data(), begin, float_bytes(rows * width));
  return aligned->as<float>();
}

void enqueue_step(TrainingParts& parts, const float* features, const float* targets, const StepWork& work) {
  StageRunner* const stages = parts.divided.stages();
  if (!work.forward) {
    stages->enqueue_round_trips(parts.options.plan.accumulate);
    return stages->join();
  }
  Stream& compute = *parts.compute;
  StepStamps* const stamps = work.stamps;
  if (!work.tensor_sums) parts.divided.silence_tensor(true);
  if (stamps) {
    stamps->begin();
    stamps->start(compute, stamps->step);
  }
  if (work.update) parts.optimizer->begin_step(compute);
  parts.sync->begin_pass(work.communication, stamps);
  enqueue_input(parts, features, targets, work);
  if (stages)
    enqueue_stages(parts, features, targets, work);
  else
    enqueue_micro_batches(parts, features, targets, work);
  if (stamps) stamps->end(compute, stamps->backward);
  enqueue_update(parts, work);
  if (stages) stages->join();
  if (stamps) stamps->end(compute, stamps->step);
  if (!work.tensor_sums) parts.divided.silence_tensor(false);
}

void load_kernels(TrainingParts& parts, const float* features, const float* targets) {
  Device& device = parts.rank.device;
  Stream& compute = *parts.compute;
  if (device.backend() != BackendKind::cuda || parts.rank.world_size == 1) return;
  std::vector<std::unique_ptr<Buffer>> kept;
  const std::vector<NamedBuffer> buffers = parts.divided.buffers();
  for (const NamedBuffer& buffer : buffers) {  // running statistics, which a forward pass changes
    kept.push_back(device.allocate(float_bytes(buffer.count)));
    device.copy_within(compute, kept.back()->data(), buffer.data, kept.back()->bytes());
  }
  for (Buffer* const staged : {parts.staged_features.get(), parts.staged_targets.get()})  // no step has filled them
    if (staged) device.fill_zero(compute, staged->data(), staged->bytes());
  parts.divided.silence(true);
  enqueue_step(parts, features, targets, {.input = false, .communication = false, .update = false});
  parts.divided.silence(false);
  for (size_t i = 0; i < buffers.size(); ++i)
    device.copy_within(compute, buffers[i].data, kept[i]->data(), kept[i]->bytes());
  parts.synchronize();
  parts.rank.communicator.barrier(parts.deadline());
}

}  // namespace amdahl
