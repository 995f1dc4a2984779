// The parts of Trainer that only models under tensor or pipeline parallelism need.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "train/trainer.h"

namespace amdahl {
namespace {

/// Copies what a rank holds of each tensor to its place in the whole layout.
void place_shards(const std::vector<float>& held, const ParameterLayout& layout, const ParameterLayout& all,
                  std::vector<float>& whole) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice& slice = layout.layers[i];
    if (slice.is_table_copy) continue;
    for (size_t t = 0; t < slice.tensors.size(); ++t) {
      const float* const from = held.data() + slice.tensors[t].begin;
      float* const to = whole.data() + all.layers[i].tensors[t].begin;
      for_each_run(slice.tensors[t], [&](int64_t in_whole, int64_t in_shard, int64_t count) {
        std::copy_n(from + in_shard, count, to + in_whole);
      });
    }
  }
}

/// The inverse: what a rank with this layout holds of the whole.
std::vector<float> take_shards(const std::vector<float>& whole, const ParameterLayout& layout,
                               const ParameterLayout& all) {
  std::vector<float> held(static_cast<size_t>(layout.num_floats), 0.0f);
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice& slice = layout.layers[i];
    for (size_t t = 0; t < slice.tensors.size(); ++t) {
      const float* const from = whole.data() + all.layers[slice.is_table_copy ? 0 : i].tensors[t].begin;
      float* const to = held.data() + slice.tensors[t].begin;
      for_each_run(slice.tensors[t], [&](int64_t in_whole, int64_t in_shard, int64_t count) {
        std::copy_n(from + in_whole, count, to + in_shard);
      });
    }
  }
  return held;
}

/// Arrays as bytes for a message: number of values, length of the name, name, values.
std::string pack_arrays(const std::vector<NamedArray>& arrays) {
  std::string bytes;
  const auto add = [&](const void* data, size_t size) { bytes.append(static_cast<const char*>(data), size); };
  for (const NamedArray& array : arrays) {
    const uint64_t sizes[2] = {array.values.size(), array.name.size()};
    add(sizes, sizeof sizes);
    add(array.name.data(), array.name.size());
    add(array.values.data(), array.values.size() * sizeof(float));
  }
  return bytes;
}

std::vector<NamedArray> unpack_arrays(const std::string& bytes) {
  std::vector<NamedArray> arrays;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t sizes[2] = {};
    std::memcpy(sizes, bytes.data() + at, sizeof sizes);
    at += sizeof sizes;
    NamedArray& array = arrays.emplace_back();
    array.name = bytes.substr(at, sizes[1]);
    at += sizes[1];
    array.values.resize(sizes[0]);
    array.shape = {static_cast<int64_t>(sizes[0])};
    std::memcpy(array.values.data(), bytes.data() + at, sizes[0] * sizeof(float));
    at += sizes[0] * sizeof(float);
  }
  return arrays;
}

}  // namespace

void Trainer::enqueue_stages(const float* features, const float* targets, StepStamps* stamps, StepPart part) {
  StageHooks hooks;
  if (part == StepPart::full || part == StepPart::staged)
    hooks.ready = [=, this](int64_t begin, int64_t end, Stream& stream) {
      strategy_->gradient_ready(begin, end, stream, stamps);
    };
  if (stamps && stamps->detailed)
    hooks.around = [=, this](bool begins, const Action& action) {
      if (begins)
        stamps->begin_piece(*compute_, "compute",
                            fmt::format("{} {} of stage {}", to_string(action.kind), action.micro_batch, action.stage));
      else
        stamps->end_piece(*compute_);
    };
  if (stamps_stages_) {
    stage_stamps_->begin_step();
    hooks.around = [this](bool begins, const Action& action) { stage_stamps_->action(begins, action, *compute_); };
    hooks.waits = [this](bool begins, const Action&) { stage_stamps_->wait(begins, *compute_); };
  }
  divided_->enqueue_gradients(features, targets, hooks);
}

void Trainer::enqueue_messages() {
  divided_->stages()->enqueue_round_trips(options_.plan.accumulate);
  divided_->stages()->join();
}

StampedStages Trainer::stamped_stages(const float* features, const float* targets) {
  synchronize();
  if (!stage_stamps_) stage_stamps_ = std::make_unique<StageStamps>(rank_.device);
  stamps_stages_ = true;
  if (options_.launch == LaunchMode::graph && warmed_) {
    std::unique_ptr<Graph>& graph = stage_graphs_[features];
    if (!graph) graph = rank_.device.capture(*compute_, [&] { enqueue(features, targets, &stamps_); });
    graph->launch(*compute_);
  } else {
    enqueue(features, targets, &stamps_);
  }
  stamps_stages_ = false;
  synchronize();
  StampedStages times;
  times.step = stamps_.us(stamps_.step);
  for (const Span& span : stage_stamps_->waits()) times.waits += stamps_.us(span);
  for (const Span& span : stamps_.stalls) times.stalls += stamps_.us(span);
  for (const Span& span : stamps_.updates) times.updates += stamps_.us(span);
  for (const StageStamps::StampedAction& each : stage_stamps_->actions())
    times.actions.push_back({each.action.stage, each.action.kind, stamps_.us(each.span)});
  return times;
}

StepStats Trainer::evaluate_stages(const float* features, const float* targets, int64_t rows) {
  StageRunner& stages = *divided_->stages();
  Model* const model = divided_->loss_model();
  StepStats total;
  const int64_t chunk = evaluated_rows();
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const float* const first_target = targets + begin * options_.model.target_width();
    stages.evaluate(features + begin * options_.model.input_width, first_target, count, rows);
    if (!divided_->counts_loss()) continue;
    const StepStats part = read_stats(*model);
    total.loss += part.loss;
    total.correct += part.correct;
    if (options_.model.loss == LossKind::mse)
      total.absolute_error += absolute_error(
          *model, {.features = nullptr, .targets = first_target, .rows = count, .row_offset = 0, .global_rows = rows});
  }
  return sum_over(divided_->replica(), total);
}

/// The whole array on rank 0, from what data-parallel rank 0 of every part holds; empty on other ranks.
std::vector<float> Trainer::gather_whole(const std::vector<float>& held) {
  std::vector<float> whole;
  if (rank_.rank != 0) {
    if (dp_rank() != 0) return whole;
    const auto sent = rank_.device.allocate(held.size() * sizeof(float));
    write_floats(sent->as<float>(), held);
    rank_.communicator.send(sent->data(), held.size(), DType::f32, 0, *compute_);
    synchronize();
    return whole;
  }
  const ParameterLayout all = make_layout(options_.model);
  whole.resize(static_cast<size_t>(all.num_floats), 0.0f);
  place_shards(held, model_.layout(), all, whole);
  for (int rank = 1; rank < rank_.world_size; ++rank) {
    if (place_of(options_.plan.mesh, rank).dp != 0) continue;
    const ParameterLayout layout = make_layout(options_.model, part_of(options_.model, options_.plan, rank));
    const auto received = rank_.device.allocate(static_cast<size_t>(layout.num_floats) * sizeof(float));
    rank_.communicator.recv(received->data(), static_cast<size_t>(layout.num_floats), DType::f32, rank, *compute_);
    place_shards(read_floats(received->as<float>(), layout.num_floats), layout, all, whole);
  }
  return whole;
}

/// What this rank holds of the array that rank 0 passes.
std::vector<float> Trainer::distribute_whole(const std::vector<float>* whole) {
  const ParameterLayout& mine = model_.layout();
  if (!whole) {
    const auto received = rank_.device.allocate(static_cast<size_t>(mine.num_floats) * sizeof(float));
    rank_.communicator.recv(received->data(), static_cast<size_t>(mine.num_floats), DType::f32, 0, *compute_);
    return read_floats(received->as<float>(), mine.num_floats);
  }
  const ParameterLayout all = make_layout(options_.model);
  for (int rank = 1; rank < rank_.world_size; ++rank) {
    const std::vector<float> theirs =
        take_shards(*whole, make_layout(options_.model, part_of(options_.model, options_.plan, rank)), all);
    const auto sent = rank_.device.allocate(theirs.size() * sizeof(float));
    write_floats(sent->as<float>(), theirs);
    rank_.communicator.send(sent->data(), theirs.size(), DType::f32, rank, *compute_);
    synchronize();
  }
  return take_shards(*whole, mine, all);
}

std::vector<float> Trainer::whole_parameters() {
  std::vector<float> held = shards_parameters() ? gather_state(model_.params()) : std::vector<float>{};
  if (divided_) return gather_whole(shards_parameters() ? held : parameters());
  if (shards_parameters()) return held;
  return rank_.rank == 0 ? parameters() : std::vector<float>{};
}

std::vector<NamedArray> Trainer::whole_buffers() {
  if (!divided_) return rank_.rank == 0 ? buffers() : std::vector<NamedArray>{};
  const bool counts = dp_rank() == 0 && divided_->place().tp == 0;
  std::vector<NamedArray> all;
  for (const std::string& bytes : rank_.communicator.exchange(counts ? pack_arrays(buffers()) : "", deadline()))
    for (NamedArray& array : unpack_arrays(bytes)) all.push_back(std::move(array));
  return rank_.rank == 0 ? all : std::vector<NamedArray>{};
}

void Trainer::load_divided_buffers(const std::vector<NamedArray>& saved) {
  const std::string mine = rank_.rank == 0 ? pack_arrays(saved) : std::string();
  const std::vector<NamedArray> all = unpack_arrays(rank_.communicator.exchange(mine, deadline()).front());
  for (const NamedBuffer& buffer : divided_->buffers()) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const NamedArray& array) { return array.name == buffer.name; });
    if (found == all.end() || found->values.size() != static_cast<size_t>(buffer.count))
      throw Error(Cause::data_corrupt,
                  fmt::format("the checkpoint has no tensor '{}' of {} values", buffer.name, buffer.count),
                  "a checkpoint of this model");
    write_floats(buffer.data, found->values);
  }
}

size_t Trainer::take_traffic() {
  const size_t bytes = rank_.communicator.traffic().payload_bytes;
  rank_.communicator.reset_traffic();
  return bytes + (divided_ ? divided_->take_traffic() : 0);
}

}  // namespace amdahl
