#include "sensor/ops/merge.h"

#include <fmt/format.h>

#include <algorithm>

namespace amdahl {
namespace {

constexpr double kTimeoutSeconds = 60;  // of the ranks' agreement at construction

int64_t num_values(const VoxelizeProblem& problem) { return num_voxels(problem.grid) * problem.num_features; }

/// Bytes of each kind of memory that a GridMerge holds.
struct MergeMemory {
  size_t scratch = 0, counts = 0, sums = 0, scale = 0, masks = 0, shared = 0, bytes = 0;
  size_t total() const { return scratch + counts + sums + scale + masks + shared + bytes; }
};

bool by_count_peers(MergeMethod method, VoxelMode mode) {
  return method == MergeMethod::peer && mode == VoxelMode::count;
}
bool by_mask(MergeMethod method, VoxelMode mode) {
  return method == MergeMethod::bitmask || (method == MergeMethod::peer && mode != VoxelMode::count);
}

/// Bytes of one mask, padded to whole vectors.
size_t mask_bytes(const VoxelGrid& grid) {
  constexpr size_t kVector = 16;
  return (static_cast<size_t>(num_mask_words(grid)) * sizeof(uint32_t) + kVector - 1) / kVector * kVector;
}

/// `divided`: ByteCounts::divided.
MergeMemory memory_of(const SensorOps& ops, const VoxelizeProblem& like, int world_size, MergeMethod method,
                      bool divided) {
  VoxelizeProblem part = like;
  part.partial = method != MergeMethod::none;
  int32_t outside = 0;  // non-null: counts are outside of the scratch memory
  if (part.partial && is_mean(part)) part.counts = &outside;
  if (by_mask(method, like.options.mode)) part.options.mode = VoxelMode::bitmask;
  ByteCounts byte_counts = ByteCounts::of(num_voxels(like.grid), world_size, like.num_points);
  const bool count_peers = by_count_peers(method, like.options.mode);
  byte_counts.divided = divided;
  if (divided)
    part.sorted_parts.num_ranks = world_size;
  else if (method == MergeMethod::bytes || count_peers)
    part.most_in_byte = byte_counts.most();
  MergeMemory memory;
  memory.scratch = ops.voxelize_scratch_bytes(part);
  if (is_fixed_point(like)) memory.scale = sizeof(float);
  if (method == MergeMethod::bitmask)
    memory.masks = static_cast<size_t>(num_mask_words(like.grid)) * sizeof(uint32_t) * static_cast<size_t>(world_size);
  if (count_peers) memory.shared = ops.count_peer_bytes(byte_counts);
  if (method == MergeMethod::peer && !count_peers) {
    memory.masks = mask_bytes(like.grid);
    memory.shared = ops.mask_peer_bytes(num_voxels(like.grid), world_size);
  }
  if (method == MergeMethod::bytes) memory.bytes = byte_counts.bytes();
  if (method == MergeMethod::collective && is_mean(like)) {
    memory.counts = static_cast<size_t>(num_voxels(like.grid)) * sizeof(int32_t);
    if (is_fixed_point(like)) memory.sums = static_cast<size_t>(num_values(like)) * sizeof(int64_t);
  }
  return memory;
}

}  // namespace

std::string_view to_string(MergeMethod method) {
  switch (method) {
    case MergeMethod::none:
      return "none";
    case MergeMethod::collective:
      return "collective";
    case MergeMethod::bitmask:
      return "bitmask";
    case MergeMethod::peer:
      return "peer";
    case MergeMethod::bytes:
      return "bytes";
  }
  return "?";
}

MergeMethod best_merge(VoxelMode mode) {
  return mode == VoxelMode::occupancy || mode == VoxelMode::bitmask ? MergeMethod::bitmask : MergeMethod::collective;
}

MergeMethod best_merge(VoxelMode mode, int64_t voxels, int64_t num_points_of_rank, int world_size) {
  const ByteCounts bytes = ByteCounts::of(voxels, world_size, num_points_of_rank);
  const bool fewer = bytes.feasible() && bytes.bytes() < static_cast<size_t>(voxels) * sizeof(int32_t);
  return mode == VoxelMode::count && fewer ? MergeMethod::bytes : best_merge(mode);
}

Feasibility can_merge(VoxelMode mode, MergeMethod method) {
  if (method == MergeMethod::peer && has_values(mode))
    return {false, fmt::format("peers take bits and counts of voxels, not their {}", to_string(mode))};
  if (by_mask(method, mode) && mode != VoxelMode::occupancy && mode != VoxelMode::bitmask)
    return {false, fmt::format("a bit says whether a voxel is occupied, not its {}", to_string(mode))};
  if (method == MergeMethod::bytes && mode != VoxelMode::count)
    return {false, fmt::format("a byte says the number of points of a voxel, not its {}", to_string(mode))};
  if (method == MergeMethod::collective && mode == VoxelMode::bitmask)
    return {false, "no collective of every backend reduces by OR"};
  return {};
}

GridMerge::GridMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
                     int64_t num_points_of_all, MergeMethod method)
    : device_(device), ops_(ops), communicator_(communicator), num_points_of_all_(num_points_of_all), method_(method) {
  const Feasibility feasible = can_merge(like.options.mode, method);
  if (!feasible.ok)
    throw Error(
        Cause::usage,
        fmt::format("merge {} of mode {}: {}", to_string(method), to_string(like.options.mode), feasible.reason),
        fmt::format("`merge` {}", to_string(best_merge(like.options.mode))));
  const bool count_peers = by_count_peers(method, like.options.mode);
  if (method == MergeMethod::bytes || count_peers) lay_out_bytes(like);
  const MergeMemory memory = memory_of(ops, like, communicator.world_size(), method, byte_counts_.divided);
  const auto allocate = [&device](size_t bytes) { return bytes > 0 ? device.allocate(bytes) : nullptr; };
  scratch_ = allocate(memory.scratch);
  counts_ = allocate(memory.counts);
  sums_ = allocate(memory.sums);
  scale_ = allocate(memory.scale);
  const auto allocate_zeros = [&device](size_t bytes) {
    return allocate_zeroed(device, bytes, Deadline::after_seconds(kTimeoutSeconds));
  };
  masks_ = method == MergeMethod::peer && memory.masks > 0 ? allocate_zeros(memory.masks) : allocate(memory.masks);
  if (method == MergeMethod::bytes) bytes_ = allocate_zeros(byte_counts_.bytes());
  if (method == MergeMethod::peer) connect_peers(num_voxels(like.grid), count_peers);
}

size_t GridMerge::memory_bytes(const SensorOps& ops, const VoxelizeProblem& like, int world_size, MergeMethod method) {
  const bool divided = by_count_peers(method, like.options.mode) && ops.divides_counts(num_voxels(like.grid));
  return memory_of(ops, like, world_size, method, divided).total();
}

void GridMerge::lay_out_bytes(const VoxelizeProblem& like) {
  const Deadline deadline = Deadline::after_seconds(kTimeoutSeconds);
  const int64_t voxels = num_voxels(like.grid);
  int64_t most_points = 0;
  for (const std::string& points : communicator_.exchange(std::to_string(like.num_points), deadline))
    most_points = std::max<int64_t>(most_points, std::stoll(points));
  byte_counts_ = ByteCounts::of(voxels, communicator_.world_size(), most_points);
  byte_counts_.divided = by_count_peers(method_, like.options.mode);
  for (const std::string& divides : communicator_.exchange(ops_.divides_counts(voxels) ? "yes" : "no", deadline))
    byte_counts_.divided = byte_counts_.divided && divides == "yes";
  if (!byte_counts_.feasible())
    throw Error(
        Cause::usage,
        fmt::format("`merge` {}: {} ranks and {} voxels", to_string(method_), communicator_.world_size(), voxels),
        "at most 255 and 4294967296, or `merge=collective`");
}

void GridMerge::make_room(const VoxelizeProblem& problem) {
  const size_t needed = memory_of(ops_, problem, communicator_.world_size(), method_, byte_counts_.divided).scratch;
  if (needed <= (scratch_ ? scratch_->bytes() : 0)) return;
  scratch_.reset();
  scratch_ = device_.allocate(needed);
}

Feasibility reach_peers(Device& device, const SensorOps& ops, Communicator& communicator, int64_t voxels) {
  if (ops.mask_peer_bytes(voxels, communicator.world_size()) == 0)
    return {false, "the ranks do not see each other's device memory"};
  return reach_team(device, communicator, Deadline::after_seconds(kTimeoutSeconds));
}

void GridMerge::connect_peers(int64_t voxels, bool counts) {
  const Deadline deadline = Deadline::after_seconds(kTimeoutSeconds);
  const Feasibility reach = reach_peers(device_, ops_, communicator_, voxels);
  if (!reach.ok)
    throw Error(Cause::usage, "`merge=peer`: " + reach.reason, "several GPUs in one process, or `merge=auto`");
  const size_t bytes =
      counts ? ops_.count_peer_bytes(byte_counts_) : ops_.mask_peer_bytes(voxels, communicator_.world_size());
  const SymmetricMemory memory =
      share_buffer(device_, communicator_, allocate_zeroed(device_, bytes, deadline), kTimeoutSeconds);
  if (counts)
    count_peers_ = ops_.join_counts(memory, byte_counts_);
  else
    mask_peers_ = ops_.join_masks(memory, voxels);
  communicator_.barrier(deadline);  // all allocations are done before any rank continues
}

uint32_t* GridMerge::own_mask() const {
  if (method_ == MergeMethod::peer) return masks_->as<uint32_t>();
  const size_t words = masks_->bytes() / sizeof(uint32_t) / static_cast<size_t>(communicator_.world_size());
  return masks_->as<uint32_t>() + words * static_cast<size_t>(communicator_.rank());
}

VoxelizeProblem GridMerge::part_of(const VoxelizeProblem& problem) const {
  VoxelizeProblem part = problem;
  part.partial = method_ != MergeMethod::none;
  part.scratch = scratch_ ? scratch_->data() : nullptr;
  part.scale = scale_ ? scale_->as<float>() : nullptr;
  if (counts_) part.counts = counts_->as<int32_t>();
  if (sums_) part.output = sums_->data();
  if (by_mask(method_, problem.options.mode)) {
    part.options.mode = VoxelMode::bitmask;
    part.output = own_mask();
  }
  if (count_peers_ || bytes_) {
    if (problem.num_points > byte_counts_.most_points_of_rank)
      throw Error(Cause::usage,
                  fmt::format("merge {}: {} points, and there is room for {}", to_string(method_), problem.num_points,
                              byte_counts_.most_points_of_rank),
                  "no more points than a rank had at first");
  }
  if (count_peers_) count_peers_->aim(part);
  if (bytes_) {
    part.most_in_byte = byte_counts_.most();
    part.output = bytes_->data();
    part.overflow = byte_counts_.list(bytes_->data(), communicator_.rank());
  }
  return part;
}

void GridMerge::compute(Stream& stream, const VoxelizeProblem& problem) {
  const VoxelizeProblem part = part_of(problem);
  if (scale_) {
    ops_.fixed_point_scale(stream, part, num_points_of_all_, scale_->as<float>());
    // All ranks use the minimum of their scales, which keeps every sum within 64 bits.
    if (method_ != MergeMethod::none) communicator_.all_reduce(scale_->data(), 1, DType::f32, ReduceOp::min, stream);
  }
  ops_.voxelize(stream, part);
}

void GridMerge::merge(Stream& stream, const VoxelizeProblem& problem) {
  if (method_ == MergeMethod::none) return;
  if (method_ == MergeMethod::bitmask) return merge_masks(stream, problem);
  if (count_peers_) return count_peers_->merge(stream, static_cast<int32_t*>(problem.output));
  if (method_ == MergeMethod::peer) {
    const bool grid = problem.options.mode == VoxelMode::occupancy;
    return mask_peers_->merge(stream, own_mask(), grid ? static_cast<int32_t*>(problem.output) : nullptr,
                              grid ? nullptr : static_cast<uint32_t*>(problem.output));
  }
  if (method_ == MergeMethod::bytes) {
    communicator_.all_reduce(bytes_->data(), byte_counts_.bytes(), DType::u8, ReduceOp::sum, stream);
    return ops_.add_byte_counts(stream, byte_counts_, bytes_->data(), static_cast<int32_t*>(problem.output));
  }
  if (is_mean(problem)) return merge_mean(stream, problem);
  const auto voxels = static_cast<size_t>(num_voxels(problem.grid));
  switch (problem.options.mode) {
    case VoxelMode::count:
      return communicator_.all_reduce(problem.output, voxels, DType::i32, ReduceOp::sum, stream);
    case VoxelMode::occupancy:
      return communicator_.all_reduce(problem.output, voxels, DType::i32, ReduceOp::max, stream);
    default:
      break;
  }
  communicator_.all_reduce(problem.output, static_cast<size_t>(num_values(problem)), DType::f32, ReduceOp::max, stream);
  ops_.finish(stream, part_of(problem));
}

void GridMerge::merge_masks(Stream& stream, const VoxelizeProblem& problem) {
  const int64_t words = num_mask_words(problem.grid);
  uint32_t* own = own_mask();
  auto* all = masks_->as<uint32_t>();
  communicator_.all_gather(own, all, static_cast<size_t>(words), DType::i32, stream);
  for (int rank = 0; rank < communicator_.world_size(); ++rank)
    if (rank != communicator_.rank()) ops_.merge_masks(stream, own, all + words * rank, words);
  if (problem.options.mode == VoxelMode::occupancy)
    ops_.expand_mask(stream, own, static_cast<int32_t*>(problem.output), num_voxels(problem.grid));
  else
    stream.device().copy_within(stream, problem.output, own, static_cast<size_t>(words) * sizeof(uint32_t));
}

void GridMerge::merge_mean(Stream& stream, const VoxelizeProblem& problem) {
  const VoxelizeProblem part = part_of(problem);
  const DType type = sums_ ? DType::i64 : DType::f32;
  communicator_.all_reduce(part.output, static_cast<size_t>(num_values(problem)), type, ReduceOp::sum, stream);
  communicator_.all_reduce(part.counts, static_cast<size_t>(num_voxels(problem.grid)), DType::i32, ReduceOp::sum,
                           stream);
  VoxelizeProblem merged = part;
  merged.sums = part.output;
  merged.output = problem.output;
  ops_.finish(stream, merged);
}

}  // namespace amdahl
