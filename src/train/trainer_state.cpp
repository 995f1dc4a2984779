#include "train/trainer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "train/assemble.h"
#include "train/replicas.h"

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
    if (sizes[0] > 0) std::memcpy(array.values.data(), bytes.data() + at, sizes[0] * sizeof(float));
    at += sizes[0] * sizeof(float);
  }
  return arrays;
}

std::vector<float> read_floats(TrainingParts& parts, const float* from, int64_t count) {
  std::vector<float> host(static_cast<size_t>(count));
  parts.rank.device.copy_out(*parts.compute, host.data(), from, float_bytes(count));
  parts.synchronize();
  return host;
}

void write_floats(TrainingParts& parts, float* to, const std::vector<float>& values) {
  parts.rank.device.copy_in(*parts.compute, to, values.data(), values.size() * sizeof(float));
  parts.synchronize();
}

std::vector<float> receive_floats(TrainingParts& parts, Communicator& ranks, int64_t count, int from) {
  const auto received = parts.rank.device.allocate(float_bytes(count));
  ranks.recv(received->data(), static_cast<size_t>(count), DType::f32, from, *parts.compute);
  return read_floats(parts, received->as<float>(), count);
}

void send_floats(TrainingParts& parts, const std::vector<float>& values, int to) {
  const auto sent = parts.rank.device.allocate(values.size() * sizeof(float));
  write_floats(parts, sent->as<float>(), values);
  parts.rank.communicator.send(sent->data(), values.size(), DType::f32, to, *parts.compute);
  parts.synchronize();
}

ParameterLayout layout_of(const TrainingParts& parts, int rank) {
  return make_layout(parts.options.model, part_of(parts.options.model, parts.options.plan, rank));
}

/// For tests and small models: every rank gets the parameters through the control plane.
std::vector<float> exchange_parameters(TrainingParts& parts) {
  const std::vector<float> held = read_floats(parts, parts.model.params(), floats_in(parts.owned()));
  const std::string mine(reinterpret_cast<const char*>(held.data()), held.size() * sizeof(float));
  std::vector<float> whole(static_cast<size_t>(parts.model.layout().num_floats));
  const std::vector<std::string> all = parts.divided.dp().exchange(mine, parts.deadline());
  for (int rank = parts.options.plan.mesh.dp - 1; rank >= 0; --rank) {
    const std::string& bytes = all[static_cast<size_t>(rank)];
    std::vector<float> theirs(bytes.size() / sizeof(float));
    if (!theirs.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());  // empty: a stage that only pools
    spread(theirs, parts.owned_by(rank), whole);
  }
  return whole;
}

/// The array of what each rank owns, over the layout of this rank on data-parallel rank 0; empty on other ranks. Where
/// several ranks hold a parameter's state, the lowest rank's counts: it is the one that updates it under every
/// strategy.
std::vector<float> gather_owned(TrainingParts& parts, const float* array) {
  const int64_t mine = floats_in(parts.owned()), all = parts.model.layout().num_floats;
  const int ranks = parts.options.plan.mesh.dp;
  const bool is_spread = ranks > 1 && floats_in(parts.owned_by(0)) < all;
  Communicator& dp = parts.divided.dp();
  if (parts.divided.place().dp != 0) {
    if (is_spread && mine > 0) dp.send(array, static_cast<size_t>(mine), DType::f32, 0, *parts.compute);
    parts.synchronize();
    return {};
  }
  std::vector<float> whole(static_cast<size_t>(all));
  for (int rank = ranks - 1; rank > 0 && is_spread; --rank)
    if (const int64_t floats = floats_in(parts.owned_by(rank)); floats > 0)
      spread(receive_floats(parts, dp, floats, rank), parts.owned_by(rank), whole);
  spread(read_floats(parts, array, mine), parts.owned(), whole);
  return whole;
}

/// Rank 0 has `whole`; every rank of an undivided model gets what it owns.
void distribute_owned(TrainingParts& parts, float* array, const std::vector<float>* whole) {
  if (!whole) {
    const auto mine = static_cast<size_t>(floats_in(parts.owned()));
    if (mine > 0) parts.rank.communicator.recv(array, mine, DType::f32, 0, *parts.compute);
    return parts.synchronize();
  }
  write_floats(parts, array, collect(*whole, parts.owned()));
  for (int rank = 1; rank < parts.rank.world_size; ++rank)
    if (const std::vector<float> theirs = collect(*whole, parts.owned_by(rank)); !theirs.empty())
      send_floats(parts, theirs, rank);
}

/// Of a divided model: the whole array on rank 0, from what data-parallel rank 0 of every part holds; empty on other
/// ranks.
std::vector<float> gather_divided(TrainingParts& parts, const std::vector<float>& held) {
  if (parts.rank.rank != 0) {
    if (parts.divided.place().dp == 0) send_floats(parts, held, 0);
    return {};
  }
  const ParameterLayout all = make_layout(parts.options.model);
  std::vector<float> whole(static_cast<size_t>(all.num_floats), 0.0f);
  place_shards(held, parts.model.layout(), all, whole);
  for (int rank = 1; rank < parts.rank.world_size; ++rank) {
    if (place_of(parts.options.plan.mesh, rank).dp != 0) continue;
    const ParameterLayout theirs = layout_of(parts, rank);
    place_shards(receive_floats(parts, parts.rank.communicator, theirs.num_floats, rank), theirs, all, whole);
  }
  return whole;
}

/// Of a divided model: what this rank holds of the array that rank 0 passes.
std::vector<float> distribute_divided(TrainingParts& parts, const std::vector<float>* whole) {
  const ParameterLayout& mine = parts.model.layout();
  if (!whole) return receive_floats(parts, parts.rank.communicator, mine.num_floats, 0);
  const ParameterLayout all = make_layout(parts.options.model);
  for (int rank = 1; rank < parts.rank.world_size; ++rank)
    send_floats(parts, take_shards(*whole, layout_of(parts, rank), all), rank);
  return take_shards(*whole, mine, all);
}

/// By rank, on rank 0. Plans with feedback have a data axis alone.
std::vector<std::vector<float>> gather_feedback(TrainingParts& parts) {
  float* const mine = parts.sync->feedback();
  if (!mine) return {};
  Communicator& world = parts.rank.communicator;
  const int64_t floats = parts.model.layout().num_floats;
  if (parts.rank.rank != 0) {
    world.send(mine, static_cast<size_t>(floats), DType::f32, 0, *parts.compute);
    parts.synchronize();
    return {};
  }
  std::vector<std::vector<float>> by_rank{read_floats(parts, mine, floats)};
  for (int rank = 1; rank < parts.rank.world_size; ++rank)
    by_rank.push_back(receive_floats(parts, world, floats, rank));
  return by_rank;
}

/// `saved` counts on rank 0 alone. With fewer ranks than before a rank takes the sum of several, with more some begin
/// with none: nothing is lost.
void distribute_feedback(TrainingParts& parts, const std::vector<std::vector<float>>& saved) {
  Communicator& world = parts.rank.communicator;
  const std::string count = world.exchange(std::to_string(saved.size()), parts.deadline()).front();
  float* const mine = parts.sync->feedback();
  if (!mine && count != "0")
    throw Error(Cause::usage,
                "the checkpoint holds error feedback of compressed gradients, and this plan sends all of them",
                "a plan with compress=int8 or compress=topk");
  if (!mine || count == "0") return;
  const auto floats = static_cast<size_t>(parts.model.layout().num_floats);
  if (parts.rank.rank != 0) {
    world.recv(mine, floats, DType::f32, 0, *parts.compute);
    return parts.synchronize();
  }
  const auto ranks = static_cast<size_t>(parts.rank.world_size);
  for (size_t rank = ranks; rank-- > 0;) {
    std::vector<float> sum(floats, 0.0f);
    for (size_t from = rank; from < saved.size(); from += ranks)
      for (size_t i = 0; i < floats; ++i) sum[i] += saved[from][i];
    if (rank > 0)
      send_floats(parts, sum, static_cast<int>(rank));
    else
      write_floats(parts, mine, sum);
  }
}

std::vector<NamedArray> read_buffers(TrainingParts& parts) {
  std::vector<NamedArray> arrays;
  for (const NamedBuffer& buffer : parts.divided.buffers())
    arrays.push_back({buffer.name, {buffer.count}, read_floats(parts, buffer.data, buffer.count)});
  return arrays;
}

/// `saved` counts on rank 0 alone.
void load_buffers(TrainingParts& parts, const std::vector<NamedArray>& saved) {
  const std::string mine = parts.rank.rank == 0 ? pack_arrays(saved) : std::string();
  const std::vector<NamedArray> all = unpack_arrays(parts.rank.communicator.exchange(mine, parts.deadline()).front());
  for (const NamedBuffer& buffer : parts.divided.buffers()) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const NamedArray& array) { return array.name == buffer.name; });
    if (found == all.end() || found->values.size() != static_cast<size_t>(buffer.count))
      throw Error(Cause::data_corrupt,
                  fmt::format("the checkpoint has no tensor '{}' of {} values", buffer.name, buffer.count),
                  "a checkpoint of this model");
    write_floats(parts, buffer.data, found->values);
  }
}

/// From rank 0 to all ranks.
void place_parameters(TrainingParts& parts, const std::vector<float>& parameters) {
  const bool root = parts.rank.rank == 0, divided = parts.divided.is_divided();
  const auto floats =
      static_cast<size_t>(divided ? make_layout(parts.options.model).num_floats : parts.model.layout().num_floats);
  if (root && parameters.size() != floats) throw Error(Cause::internal, "the parameters of another model");
  float* const to = parts.model.params();
  if (divided) {
    const std::vector<float> held = distribute_divided(parts, root ? &parameters : nullptr);
    write_floats(parts, to, parts.shards_parameters() ? collect(held, parts.owned()) : held);
  } else if (parts.shards_parameters()) {
    distribute_owned(parts, to, root ? &parameters : nullptr);
  } else {
    if (root) write_floats(parts, to, parameters);
    if (parts.rank.world_size > 1) parts.rank.communicator.broadcast(to, floats, DType::f32, 0, *parts.compute);
  }
}

}  // namespace

std::optional<LossScale> read_loss_scale(TrainingParts& parts) {
  if (!parts.optimizer->loss_scale()) return std::nullopt;
  LossScale host;
  parts.rank.device.copy_out(*parts.compute, &host, parts.optimizer->loss_scale(), sizeof host);
  parts.synchronize();
  return host;
}

std::vector<float> read_parameters(TrainingParts& parts) {
  if (parts.shards_parameters()) return exchange_parameters(parts);
  return read_floats(parts, parts.model.params(), parts.model.layout().num_floats);
}

std::vector<float> gather_parameters(TrainingParts& parts) {
  const bool is_divided = parts.divided.is_divided();
  std::vector<float> held;
  if (parts.shards_parameters())
    held = gather_owned(parts, parts.model.params());
  else if (is_divided || parts.rank.rank == 0)
    held = read_parameters(parts);
  return is_divided ? gather_divided(parts, held) : held;
}

std::vector<NamedArray> gather_buffers(TrainingParts& parts) {
  const bool root = parts.rank.rank == 0;
  if (!parts.divided.is_divided()) return root ? read_buffers(parts) : std::vector<NamedArray>{};
  const bool counts = parts.divided.place().dp == 0 && parts.divided.place().tp == 0;
  const std::string mine = counts ? pack_arrays(read_buffers(parts)) : std::string();
  std::vector<NamedArray> all;
  for (const std::string& bytes : parts.rank.communicator.exchange(mine, parts.deadline()))
    for (NamedArray& array : unpack_arrays(bytes)) all.push_back(std::move(array));
  return root ? all : std::vector<NamedArray>{};
}

TrainerState save_state(TrainingParts& parts) {
  parts.finish_updates();
  TrainerState state;
  state.parameters = gather_parameters(parts);
  state.buffers = gather_buffers(parts);
  state.loss_scale = read_loss_scale(parts);
  state.feedback = gather_feedback(parts);
  parts.rank.device.copy_out(*parts.compute, &state.step, parts.model.step_counter(), sizeof state.step);
  for (float* const array : parts.optimizer->state()) {
    std::vector<float> whole = gather_owned(parts, array);
    if (parts.divided.is_divided()) whole = gather_divided(parts, whole);
    if (parts.rank.rank == 0) state.optimizer.push_back(std::move(whole));
  }
  parts.synchronize();
  return state;
}

void load_parameters(TrainingParts& parts, const std::vector<float>& parameters) {
  parts.synchronize();
  place_parameters(parts, parameters);
  parts.synchronize();
  begin_own_state(parts);
}

void load_state(TrainingParts& parts, const TrainerState& state) {
  parts.synchronize();
  parts.sync->reset();
  Device& device = parts.rank.device;
  Communicator& world = parts.rank.communicator;
  Stream& compute = *parts.compute;
  const bool root = parts.rank.rank == 0;
  const std::vector<float*> arrays = parts.optimizer->state();
  if (root && state.optimizer.size() != arrays.size()) throw Error(Cause::internal, "the state of another trainer");
  distribute_feedback(parts, state.feedback);
  std::string mine(reinterpret_cast<const char*>(&state.step), sizeof state.step);
  if (state.loss_scale) mine.append(reinterpret_cast<const char*>(&*state.loss_scale), sizeof(LossScale));
  const std::string agreed = world.exchange(root ? mine : std::string(), parts.deadline()).front();
  device.copy_in(compute, parts.model.step_counter(), agreed.data(), sizeof state.step);
  if (LossScale* scale = parts.optimizer->loss_scale(); scale && agreed.size() > sizeof state.step)
    device.copy_in(compute, scale, agreed.data() + sizeof state.step, sizeof *scale);
  parts.synchronize();
  place_parameters(parts, state.parameters);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<float>* const array = root ? &state.optimizer[i] : nullptr;
    if (parts.divided.is_divided())
      write_floats(parts, arrays[i], collect(distribute_divided(parts, array), parts.owned()));
    else
      distribute_owned(parts, arrays[i], array);
  }
  load_buffers(parts, state.buffers);
  parts.synchronize();
  begin_own_state(parts);
}

}  // namespace amdahl
