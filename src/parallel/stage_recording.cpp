#include "parallel/stage_recording.h"

#include <algorithm>

#include "comm/world.h"
#include "device/recording_device.h"
#include "model/model.h"
#include "parallel/tensor/dense.h"
#include "parallel/tensor/group.h"

namespace amdahl {

StageRecording record_stage(const ModelSpec& model, const StageCase& stage, BackendKind backend, MathMode math) {
  RecordingDevice device(backend);
  StageRecording recording;
  OpRecording calls;
  const std::unique_ptr<Ops> ops = make_recording_ops(backend, math, calls);
  const std::unique_ptr<Communicator> tp = make_recording_communicator(0, stage.tensor_ranks);
  CommunicatorGroup group(*tp);
  const ModelPart part{{stage.layers}, stage.roles, {stage.tensor_ranks, 0}};
  const bool gathers = stage.gathers_parameters;
  ModelOptions options{.max_rows = stage.rows,
                       .layers = stage.layers,
                       .recompute = stage.recompute,
                       .roles = stage.roles,
                       .divided_tokens = stage.divided_tokens,
                       .storage = std::make_shared<ParameterStorage>(
                           device, make_layout(model, part),
                           gathers ? DataShards{.num_ranks = 2, .gradients = true, .parameters = true} : DataShards{})};
  if (stage.tensor_ranks > 1) {
    options.tensor = &group;
    options.make_layer = tensor_layers(model, stage.roles, {device, *ops, *tp});
  }
  const auto stream = device.make_stream("compute");
  const auto rows = device.allocate(sizeof(float));  // stands for what a data set or the stage below gives
  const size_t before = device.allocated_bytes();
  const auto allocated = [&] { return static_cast<int64_t>(device.allocated_bytes() - before); };
  {
    Model whole(model, device, *ops, options);
    const int64_t made = allocated();
    const BatchView batch{rows->as<float>(), rows->as<float>(), stage.rows, 0, stage.rows};
    const auto run = [&](bool accumulate) {
      whole.forward(*stream, batch, true);
      if (whole.range().last == model.layers.size()) whole.loss(*stream, batch, accumulate);
      std::swap(recording.forward, calls);
      calls.clear();
      whole.backward(*stream, batch, accumulate, {});
      std::swap(recording.backward, calls);
      calls.clear();
      recording.tensor_bytes = static_cast<int64_t>(tp->traffic().payload_bytes);
      tp->reset_traffic();
      recording.scratch.include(recording.forward.scratch());
      recording.scratch.include(recording.backward.scratch());
      recording.gpu_scratch.include(recording.forward.gpu_scratch());
      recording.gpu_scratch.include(recording.backward.gpu_scratch());
    };
    if (stage.accumulates) run(true);
    run(false);
    recording.shared_bytes = allocated();
    if (stage.layers.first > 0)
      recording.slot_bytes = static_cast<int64_t>(float_bytes(whole.input_floats(stage.rows)));
    options.num_slots = 2;
    const Model both(model, device, *ops, options);
    const int64_t more = allocated() - recording.shared_bytes - made;
    recording.slot_bytes += more;
    recording.shared_bytes -= more;
  }
  return recording;
}

double step_flops(const ModelSpec& model, int64_t batch) {
  const StageCase one_row{.layers = {0, model.layers.size()}, .roles = tensor_roles(model)};
  const StageRecording stage = record_stage(model, one_row, BackendKind::cpu, MathMode::fp32);
  return static_cast<double>(batch) * (stage.forward.flops() + stage.backward.flops());
}

}  // namespace amdahl
