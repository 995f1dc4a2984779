// What a checkpoint keeps of a trainer, gathered on rank 0 and distributed from there.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "train/trainer.h"

namespace amdahl {
namespace {

int64_t floats_in(const std::vector<FloatRange>& ranges) {
  int64_t floats = 0;
  for (const FloatRange& range : ranges) floats += range.floats();
  return floats;
}

/// Copies between an array of the whole layout and one of the owned ranges alone.
void spread(const std::vector<float>& owned_values, const std::vector<FloatRange>& owned, std::vector<float>& whole) {
  int64_t at = 0;
  for (const FloatRange& range : owned) {
    std::copy_n(owned_values.begin() + at, range.floats(), whole.begin() + range.begin);
    at += range.floats();
  }
}

std::vector<float> collect(const std::vector<float>& whole, const std::vector<FloatRange>& owned) {
  std::vector<float> values;
  for (const FloatRange& range : owned)
    values.insert(values.end(), whole.begin() + range.begin, whole.begin() + range.end);
  return values;
}

}  // namespace

std::vector<FloatRange> Trainer::owned_by(int dp_rank) const {
  return row_.owned(options_.plan, model_.layout(), dp_rank);
}

bool Trainer::state_is_divided() const {
  return options_.plan.mesh.dp > 1 && floats_in(owned_by(0)) < model_.layout().num_floats;
}

std::vector<float> Trainer::read_floats(const float* from, int64_t count) {
  std::vector<float> host(static_cast<size_t>(count));
  rank_.device.copy_out(*compute_, host.data(), from, host.size() * sizeof(float));
  synchronize();
  return host;
}

void Trainer::write_floats(float* to, const std::vector<float>& values) {
  rank_.device.copy_in(*compute_, to, values.data(), values.size() * sizeof(float));
  synchronize();
}

std::optional<LossScale> Trainer::loss_scale() {
  if (!optimizer_->loss_scale()) return std::nullopt;
  LossScale host;
  rank_.device.copy_out(*compute_, &host, optimizer_->loss_scale(), sizeof host);
  synchronize();
  return host;
}

std::vector<float> Trainer::parameters() {
  if (shards_parameters()) return gathered_parameters();
  std::vector<float> host(static_cast<size_t>(model_.layout().num_floats));
  rank_.device.copy_out(*compute_, host.data(), model_.params(), host.size() * sizeof(float));
  synchronize();
  return host;
}

std::vector<float> Trainer::gradients() {
  if (!options_.keep_gradients) throw Error(Cause::internal, "gradients were asked for but not kept");
  if (model_.storage().shards.gradients) return owned_gradients();
  std::vector<float> host(static_cast<size_t>(model_.layout().num_floats));
  rank_.device.copy_out(*compute_, host.data(), model_.grads(), host.size() * sizeof(float));
  synchronize();
  return host;
}

/// For tests and small models: every rank gets the parameters through the control plane.
std::vector<float> Trainer::gathered_parameters() {
  const std::vector<float> held = read_floats(model_.params(), floats_in(owned()));
  const std::string mine(reinterpret_cast<const char*>(held.data()), held.size() * sizeof(float));
  std::vector<float> whole(static_cast<size_t>(model_.layout().num_floats));
  const std::vector<std::string> all = replicas().exchange(mine, deadline());
  for (int rank = options_.plan.mesh.dp - 1; rank >= 0; --rank) {
    const std::string& bytes = all[static_cast<size_t>(rank)];
    std::vector<float> theirs(bytes.size() / sizeof(float));
    std::memcpy(theirs.data(), bytes.data(), bytes.size());
    spread(theirs, owned_by(rank), whole);
  }
  return whole;
}

std::vector<float> Trainer::owned_gradients() {
  std::vector<float> whole(static_cast<size_t>(model_.layout().num_floats));
  spread(read_floats(model_.grads(), floats_in(owned())), owned(), whole);
  return whole;
}

void Trainer::settle() {
  strategy_->settle();
  synchronize();
}

TrainerState Trainer::save_state() {
  settle();
  TrainerState state;
  const bool root = rank_.rank == 0;
  state.parameters = whole_parameters();
  state.buffers = whole_buffers();
  state.loss_scale = loss_scale();
  state.feedback = gather_feedback();
  rank_.device.copy_out(*compute_, &state.step, model_.step_counter(), sizeof state.step);
  for (float* const array : optimizer_->state()) {
    std::vector<float> whole = gather_state(array);
    if (divided_) whole = gather_whole(whole);
    if (root) state.optimizer.push_back(std::move(whole));
  }
  synchronize();
  return state;
}

/// The array over the layout of this rank on data-parallel rank 0; empty on other ranks. Where several ranks hold a
/// parameter's state, the lowest rank's counts: it is the one that updates it under every strategy.
std::vector<float> Trainer::gather_state(const float* array) {
  std::vector<float> whole;
  if (dp_rank() != 0) {
    const int64_t mine = floats_in(owned());
    if (state_is_divided() && mine > 0) replicas().send(array, static_cast<size_t>(mine), DType::f32, 0, *compute_);
    synchronize();
    return whole;
  }
  whole.resize(static_cast<size_t>(model_.layout().num_floats));
  for (int rank = options_.plan.mesh.dp - 1; rank > 0 && state_is_divided(); --rank) {
    const int64_t floats = floats_in(owned_by(rank));
    if (floats == 0) continue;
    const auto received = rank_.device.allocate(static_cast<size_t>(floats) * sizeof(float));
    replicas().recv(received->data(), static_cast<size_t>(floats), DType::f32, rank, *compute_);
    spread(read_floats(received->as<float>(), floats), owned_by(rank), whole);
  }
  spread(read_floats(array, floats_in(owned())), owned(), whole);
  return whole;
}

/// Of the bits of the owned parameters, then of each array of state.
std::vector<uint32_t> Trainer::sums_of_own_state() {
  const std::vector<float*> arrays = optimizer_->state();
  std::vector<uint32_t> sums(1 + arrays.size());
  const size_t bytes = sums.size() * sizeof(uint32_t);
  const std::unique_ptr<Buffer> buffer = rank_.device.allocate(bytes);
  auto* const on_device = buffer->as<uint32_t>();
  OptimizerOps& ops = rank_.ops->optimizer();
  rank_.device.fill_zero(*compute_, on_device, bytes);
  for (const FloatRange& range : owned())
    ops.sum_bits(*compute_, model_.storage().owned_param(range.begin), range.floats(), on_device);
  for (size_t i = 0; i < arrays.size(); ++i) ops.sum_bits(*compute_, arrays[i], floats_in(owned()), on_device + 1 + i);
  rank_.device.copy_out(*compute_, sums.data(), on_device, bytes);
  compute_->synchronize(deadline());
  return sums;
}

std::vector<float*> Trainer::own_arrays() {
  std::vector<float*> arrays = optimizer_->state();
  arrays.insert(arrays.begin(), owned().empty() ? nullptr : model_.storage().owned_param(owned().front().begin));
  return arrays;
}

void Trainer::begin_own_state() {
  if (!changes_) return;
  own_sums_ = sums_of_own_state();
  rank_.device.fill_zero(*compute_, changes_, own_sums_.size() * sizeof(uint32_t));
  synchronize();
}

void Trainer::check_own_state(std::string_view when) {
  if (!changes_) return;
  synchronize();
  std::vector<uint32_t> changes(own_sums_.size());
  rank_.device.copy_out(*compute_, changes.data(), changes_, changes.size() * sizeof(uint32_t));
  const std::vector<uint32_t> before = own_sums_, now = sums_of_own_state();
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i] != before[i] + changes[i])
      throw Error(
          Cause::check_failed,
          fmt::format("rank {}: its part of {} changed otherwise than by updates, {}: memory lost a bit", rank_.rank,
                      i == 0 ? "the parameters" : state_name(options_.hyper, static_cast<int>(i) - 1), when),
          "amdahl doctor for a faulty device, then the run again", rank_.rank);
  begin_own_state();
}

void Trainer::load_state(const TrainerState& state) {
  synchronize();
  strategy_->reset();
  const bool root = rank_.rank == 0;
  const auto floats =
      static_cast<size_t>(divided_ ? make_layout(options_.model).num_floats : model_.layout().num_floats);
  const std::vector<float*> arrays = optimizer_->state();
  if (root && (state.parameters.size() != floats || state.optimizer.size() != arrays.size()))
    throw Error(Cause::internal, "the state of another trainer");
  distribute_feedback(state.feedback);
  std::string mine(reinterpret_cast<const char*>(&state.step), sizeof state.step);
  if (state.loss_scale) mine.append(reinterpret_cast<const char*>(&*state.loss_scale), sizeof(LossScale));
  const std::string agreed = rank_.communicator.exchange(root ? mine : std::string(), deadline()).front();
  rank_.device.copy_in(*compute_, model_.step_counter(), agreed.data(), sizeof state.step);
  if (LossScale* scale = optimizer_->loss_scale(); scale && agreed.size() > sizeof state.step)
    rank_.device.copy_in(*compute_, scale, agreed.data() + sizeof state.step, sizeof *scale);
  synchronize();
  if (divided_) {
    const std::vector<float> held = distribute_whole(root ? &state.parameters : nullptr);
    write_floats(model_.params(), shards_parameters() ? collect(held, owned()) : held);
    for (size_t i = 0; i < arrays.size(); ++i)
      write_floats(arrays[i], collect(distribute_whole(root ? &state.optimizer[i] : nullptr), owned()));
    load_buffers(state.buffers);
    return begin_own_state();
  }
  if (shards_parameters()) {
    distribute_state(model_.params(), root ? &state.parameters : nullptr);
  } else if (root) {
    write_floats(model_.params(), state.parameters);
  }
  if (rank_.world_size > 1 && !shards_parameters())
    rank_.communicator.broadcast(model_.params(), floats, DType::f32, 0, *compute_);
  for (size_t i = 0; i < arrays.size(); ++i) distribute_state(arrays[i], root ? &state.optimizer[i] : nullptr);
  load_buffers(state.buffers);
  synchronize();
  begin_own_state();
}

/// By rank, on rank 0. Plans with feedback have a data axis alone.
std::vector<std::vector<float>> Trainer::gather_feedback() {
  std::vector<std::vector<float>> by_rank;
  float* const mine = strategy_->feedback();
  if (!mine) return by_rank;
  const int64_t floats = model_.layout().num_floats;
  if (rank_.rank != 0) {
    rank_.communicator.send(mine, static_cast<size_t>(floats), DType::f32, 0, *compute_);
    synchronize();
    return by_rank;
  }
  by_rank.push_back(read_floats(mine, floats));
  const auto received = rank_.device.allocate(static_cast<size_t>(floats) * sizeof(float));
  for (int rank = 1; rank < rank_.world_size; ++rank) {
    rank_.communicator.recv(received->data(), static_cast<size_t>(floats), DType::f32, rank, *compute_);
    by_rank.push_back(read_floats(received->as<float>(), floats));
  }
  return by_rank;
}

/// `saved` counts on rank 0 alone. With fewer ranks than before a rank takes the sum of several, with more some begin
/// with none: nothing is lost.
void Trainer::distribute_feedback(const std::vector<std::vector<float>>& saved) {
  const std::string count = rank_.communicator.exchange(std::to_string(saved.size()), deadline()).front();
  float* const mine = strategy_->feedback();
  if (!mine && count != "0")
    throw Error(Cause::usage,
                "the checkpoint holds error feedback of compressed gradients, and this plan sends all of them",
                "a plan with compress=int8 or compress=topk");
  if (!mine || count == "0") return;
  const auto floats = static_cast<size_t>(model_.layout().num_floats);
  if (rank_.rank != 0) {
    rank_.communicator.recv(mine, floats, DType::f32, 0, *compute_);
    return synchronize();
  }
  const auto ranks = static_cast<size_t>(rank_.world_size);
  const auto sent = rank_.device.allocate(floats * sizeof(float));
  for (size_t rank = ranks; rank-- > 0;) {
    std::vector<float> sum(floats, 0.0f);
    for (size_t from = rank; from < saved.size(); from += ranks)
      for (size_t i = 0; i < floats; ++i) sum[i] += saved[from][i];
    write_floats(rank == 0 ? mine : sent->as<float>(), sum);
    if (rank > 0) rank_.communicator.send(sent->data(), floats, DType::f32, static_cast<int>(rank), *compute_);
    synchronize();
  }
}

std::vector<NamedArray> Trainer::buffers() {
  std::vector<NamedArray> arrays;
  for (const NamedBuffer& buffer : divided_ ? divided_->buffers() : model_.buffers())
    arrays.push_back({buffer.name, {buffer.count}, read_floats(buffer.data, buffer.count)});
  return arrays;
}

/// `saved` counts on rank 0 alone.
void Trainer::load_buffers(const std::vector<NamedArray>& saved) {
  if (divided_) return load_divided_buffers(saved);
  for (const NamedBuffer& buffer : model_.buffers()) {
    const auto found =
        std::find_if(saved.begin(), saved.end(), [&](const NamedArray& array) { return array.name == buffer.name; });
    const auto count = static_cast<size_t>(buffer.count);
    if (rank_.rank == 0) {
      if (found == saved.end() || found->values.size() != count)
        throw Error(Cause::data_corrupt,
                    fmt::format("the checkpoint has no tensor '{}' of {} values", buffer.name, buffer.count),
                    "a checkpoint of this model");
      write_floats(buffer.data, found->values);
    }
    if (rank_.world_size > 1) rank_.communicator.broadcast(buffer.data, count, DType::f32, 0, *compute_);
  }
}

/// Rank 0 has `whole`; every rank gets what it owns.
void Trainer::distribute_state(float* array, const std::vector<float>* whole) {
  const int64_t mine = floats_in(owned());
  if (!whole) {
    if (mine > 0) rank_.communicator.recv(array, static_cast<size_t>(mine), DType::f32, 0, *compute_);
    return synchronize();
  }
  write_floats(array, collect(*whole, owned()));
  for (int rank = 1; rank < rank_.world_size; ++rank) {
    const std::vector<float> theirs = collect(*whole, owned_by(rank));
    if (theirs.empty()) continue;
    const auto sent = rank_.device.allocate(theirs.size() * sizeof(float));
    write_floats(sent->as<float>(), theirs);
    rank_.communicator.send(sent->data(), theirs.size(), DType::f32, rank, *compute_);
    synchronize();
  }
}

}  // namespace amdahl
