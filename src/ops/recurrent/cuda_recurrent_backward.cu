// Backward through a whole sequence in one launch: a cluster of blocks holds the recurrent weights in registers and
// exchanges partial sums of the gradient of h after every step.
//
// A block computes the gradients before the activations (d) of its 32 units, and multiplies them by its rows of the
// weights: its share of the gradient of h of all units, 16 units per row tile. Each share goes to the block that has
// the units, which adds the shares of all blocks in a fixed order. What is needed of the saved values is loaded and
// combined before that wait. Chunks of batch rows alternate: while one waits for its sums, the next is computed. Sets
// of warps with the same weights have chunks of their own.
#include "ops/recurrent/cuda_recurrent_launch.cuh"
#include "ops/recurrent/cuda_recurrent_records.cuh"

namespace amdahl {
namespace {

inline constexpr int kBlockK = 4 * kBlockUnits;  // gradients of a block per batch row, ordered by unit, then gate

/// Number of parts that the row tiles are divided into, each with kPartWarps warps. A thread holds 64 registers of
/// weights, or 128: of f32 weights for 256 units, and in sets.
__host__ __device__ constexpr int backward_parts(MathMode math, int hidden, int sets) {
  return math == MathMode::bf16 && (hidden <= 128 || sets > 1) ? 1 : 2;
}

/// Shared memory: received sums of two steps for every chunk; gradients of two chunks per set; states; arrivals.
template <class V>
struct BackwardLayout {
  using Values = Operand<V::kMath>;
  static constexpr int kParts = backward_parts(V::kMath, V::kHidden, V::kSets);
  static constexpr int kSetThreads = 32 * kPartWarps * kParts, kThreads = kSetThreads * V::kSets;
  static constexpr int kRowTiles = V::kHidden / 16 / (kPartWarps * kParts);  // per warp
  static constexpr int kSteps = kBlockK / 16;
  static constexpr int kRowBytes = Values::row_bytes(kBlockK), kTileBytes = kTileRows * kRowBytes;
  static constexpr int kGradientBytes = V::kTiles * kTileBytes;
  static constexpr int kChunkBytes = V::kBlocks * 2 * V::kTiles * 32 * 16;  // [sender, row tile, tile, lane] 16 bytes
  static constexpr int kStateBytes = V::kTiles * kPartWarps * 32 * 8;       // of a chunk
  static constexpr int kOwnTiles = (V::kTiles + kParts - 1) / kParts;       // for which a thread computes d

  __host__ __device__ static constexpr int gradients(int chunks) { return 2 * chunks * kChunkBytes; }
  __host__ __device__ static constexpr int states(int chunks) {
    return gradients(chunks) + 2 * V::kSets * kGradientBytes;
  }
  __host__ __device__ static constexpr int arrivals(int chunks) { return states(chunks) + chunks * kStateBytes; }
  __host__ __device__ static constexpr int bytes(int chunks) { return arrivals(chunks) + 16 * chunks; }
};

template <class V>
class BackwardBlock {
  using L = BackwardLayout<V>;
  using Values = Operand<V::kMath>;
  static constexpr RecurrentCell kCell = V::kCell;
  static constexpr int kGates = kNumGates<kCell>, kTiles = V::kTiles;

 public:
  __device__ BackwardBlock(const PersistentBackwardArrays& a, float* bias_sums, int chunks, std::byte* shared)
      : a_(a),
        bias_sums_(bias_sums),
        chunks_(chunks),
        shared_(shared),
        base_(shared_address(shared)),
        place_(persistent_place<V>(L::kParts)),
        warp_(static_cast<int>(threadIdx.x) / 32 % (kPartWarps * L::kParts)),
        g_(place_.lane / 4),
        t_(place_.lane % 4) {
    open_arrivals(base_ + static_cast<uint32_t>(L::arrivals(chunks)), 2 * chunks, L::kChunkBytes);
  }

  __device__ void run() {
    wait_for_predecessor();
    load_all_weights();
    for (int chunk = place_.set; chunk < chunks_; chunk += V::kSets)
#pragma unroll
      for (int own = 0; own < L::kOwnTiles; ++own)
        if (has_tile(own)) *state(chunk, own) = make_float2(0.0f, 0.0f);
    if (place_.set < chunks_) load_saved(0, place_.set);
    __syncwarp();
    wait_for_peers();
    for (int n = 0; n < a_.steps; ++n)  // the steps, last one first
      for (int chunk = place_.set; chunk < chunks_; chunk += V::kSets) pass(n, chunk);
    store_biases();
  }

 private:
  /// Row of the weights: a unit of the whole layer; k: a gate of a unit of this block.
  __device__ void load_all_weights() {
    const auto load = [&](float(&values)[4], int unit, int k) {
      const int own = place_.rank * kBlockUnits + k / 4;
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        const bool inside = gate < kGates && own < a_.hidden && unit < a_.hidden;
        const int64_t row = static_cast<int64_t>(min(gate, kGates - 1)) * a_.hidden + own;
        values[gate] = inside ? a_.w_hidden[row * a_.hidden + unit] : 0.0f;
      }
    };
#pragma unroll
    for (int tile = 0; tile < L::kRowTiles; ++tile)
#pragma unroll
      for (int step = 0; step < L::kSteps; ++step) {
        const int unit = (warp_ * L::kRowTiles + tile) * 16 + g_, k = k_of_step<V::kMath>(step, t_);
        float values[4];
        load(values, unit, k);
        weights_.low[tile][step] = weight_piece<V::kMath>(values);
        load(values, unit + 8, k);
        weights_.high[tile][step] = weight_piece<V::kMath>(values);
      }
  }

  __device__ int tile_of(int own) const { return own * L::kParts + place_.part; }
  __device__ bool has_tile(int own) const { return tile_of(own) < kTiles; }
  /// Of all tiles of the batch.
  __device__ int tile_index(int chunk, int tile) const { return (place_.cluster * chunks_ + chunk) * kTiles + tile; }
  /// Of a row of the batch in the arrays of rows.
  __device__ int64_t position(int row, int step) const { return static_cast<int64_t>(row) * a_.steps + step; }
  __device__ float2* state(int chunk, int own) const {
    const int index = (chunk * kTiles + tile_of(own)) * kPartWarps * 32 + place_.group * 32 + place_.lane;
    return reinterpret_cast<float2*>(shared_ + L::states(chunks_)) + index;
  }
  __device__ int received_offset(int n, int chunk) const { return (n % 2 * chunks_ + chunk) * L::kChunkBytes; }
  __device__ uint32_t arrival_offset(int n, int chunk) const {
    return static_cast<uint32_t>(L::arrivals(chunks_) + (n % 2 * chunks_ + chunk) * 8);
  }
  /// Of this pass.
  __device__ std::byte* gradients() const {
    return shared_ + L::gradients(chunks_) + (2 * place_.set + turn_) * L::kGradientBytes;
  }

  /// What a lane reads of forward for one tile: not converted before it is used, so that nothing waits for it.
  struct Saved {
    GateRecord<V::kMath> gates;
    float2 kept, before, dy;
  };

  __device__ void load_saved(int n, int chunk) {
    const int step = a_.steps - 1 - n;
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own) {
      Saved& saved = saved_[own];
      saved = {};
      const int tile = tile_index(chunk, tile_of(own));
      if (!has_tile(own) || tile >= a_.sizes.tiles || place_.all_group >= a_.sizes.groups) continue;
      const int64_t at = record_index(a_.sizes, a_.steps, tile, step, place_.all_group, place_.lane);
      const int64_t step_records = int64_t{32} * a_.sizes.groups;
      const auto* const gates = static_cast<const GateRecord<V::kMath>*>(a_.gates) + at;
      saved.gates = *gates;
      if (step > 0 && place_.lane % (128 / static_cast<int>(sizeof(GateRecord<V::kMath>))) == 0)
        prefetch_line(gates - step_records);
      if constexpr (kCell == RecurrentCell::lstm) {
        const auto* const cells = reinterpret_cast<const float2*>(a_.cells) + at;
        saved.kept = *cells;
        if (step > 0) saved.before = *(cells - step_records);
        if (step > 1 && place_.lane % 16 == 0) prefetch_line(cells - 2 * step_records);
      }
      const int row = tile * kTileRows + 2 * t_;
      const bool unit_held = place_.unit < a_.hidden;
      if (!unit_held) continue;
      if constexpr (kCell == RecurrentCell::gru) {
        if (row < a_.batch) saved.before.x = h_before(row, step);
        if (row + 1 < a_.batch) saved.before.y = h_before(row + 1, step);
        if (step > 0 && place_.group == 0 && g_ < 2 && row + g_ < a_.batch)
          prefetch_line(static_cast<const std::byte*>(a_.operands) +
                        (position(row + g_, step - 1) * a_.sizes.width + place_.unit) * Values::kBytes);
      }
      if (a_.last_step_only && n > 0) continue;
      if (row < a_.batch) saved.dy.x = dy_of(row, step);
      if (row + 1 < a_.batch) saved.dy.y = dy_of(row + 1, step);
    }
  }
  __device__ float h_before(int row, int step) const {
    return load_element<V::kMath>(a_.operands, position(row, step) * a_.sizes.width + place_.unit);
  }
  __device__ float dy_of(int row, int step) const {
    return a_.dy[(a_.last_step_only ? row : position(row, step)) * a_.hidden + place_.unit];
  }
  static __device__ CellSaved saved_of(const Saved& saved, int e) {
    CellSaved out;
    read_gates<V::kMath>(saved.gates, e, out.gates);
    const float kept = e == 0 ? saved.kept.x : saved.kept.y;
    out.kept = kCell == RecurrentCell::lstm ? kept : out.gates[3];
    out.before = e == 0 ? saved.before.x : saved.before.y;
    out.dy = e == 0 ? saved.dy.x : saved.dy.y;
    return out;
  }

  __device__ void pass(int n, int chunk) {
    find_gradients(n, chunk);
    meet_set();
    const bool wraps = chunk + V::kSets >= chunks_;
    if (!wraps || n + 1 < a_.steps) load_saved(wraps ? n + 1 : n, wraps ? place_.set : chunk + V::kSets);
    __syncwarp();
    if (n + 1 < a_.steps) {
      const std::byte* const rows = gradients() + g_ * L::kRowBytes + t_ * 16;
      send(n, chunk, multiply_held<kTiles, L::kTileBytes>(weights_, rows, HeldSums<L::kRowTiles, kTiles>{}));
    }
    store(n, chunk);
    turn_ ^= 1;
  }
  __device__ void meet_set() const {
    if constexpr (V::kSets == 1)
      __syncthreads();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(1 + place_.set), "n"(L::kSetThreads) : "memory");
  }

  /// The gradients before the activations of one step: summed up for the biases, and in shared memory.
  __device__ void find_gradients(int n, int chunk) {
    float2 recurrent[L::kOwnTiles] = {};
    CellFactors<kCell, V::kFast> factors[L::kOwnTiles][2];
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own)
#pragma unroll
      for (int e = 0; e < 2; ++e) factors[own][e] = CellFactors<kCell, V::kFast>(saved_of(saved_[own], e));
    if (n > 0) {
      const uint32_t arrival = base_ + arrival_offset(n - 1, chunk);
      wait_for_phase(arrival, static_cast<uint32_t>((n - 1) / 2 % 2));
      if (place_.leads()) expect_bytes(arrival, L::kChunkBytes);
#pragma unroll
      for (int own = 0; own < L::kOwnTiles; ++own)
        if (has_tile(own)) recurrent[own] = received_sum(n - 1, chunk, tile_of(own));
    }
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own) {
      if (!has_tile(own)) continue;
      float2* const place = state(chunk, own);
      float2 states = *place;
      float d[2][4];
      factors[own][0].apply(recurrent[own].x, states.x, d[0]);
      factors[own][1].apply(recurrent[own].y, states.y, d[1]);
      *place = states;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) bias_[gate] += d[e][gate];
        keep(gradients() + tile_of(own) * L::kTileBytes + (2 * t_ + e) * L::kRowBytes, d[e]);
      }
    }
  }

  /// The gradient of h of this thread's unit and two batch rows, from the shares of all blocks.
  __device__ float2 received_sum(int n, int chunk, int tile) const {
    const std::byte* from = shared_ + received_offset(n, chunk) +
                            ((place_.group / 2 * kTiles + tile) * 32 + place_.lane) * 16 + place_.group % 2 * 8;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int sender = 0; sender < V::kBlocks; ++sender) {
      const float2 share = *reinterpret_cast<const float2*>(from + sender * 2 * kTiles * 32 * 16);
      sum.x += share.x, sum.y += share.y;
    }
    return sum;
  }

  /// Writes a unit's four gradients to the batch row. The weights of GRU's last one, of n, are zero: it does not reach
  /// h.
  __device__ void keep(std::byte* row, const float (&d)[4]) const {
    std::byte* const to = row + (place_.group * 8 + g_) * 4 * Values::kBytes;
    if constexpr (V::kMath == MathMode::bf16)
      *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(d[0], d[1]), pack_bf16(d[2], d[3]));
    else
      *reinterpret_cast<uint4*>(to) = make_uint4(value_bits<V::kMath>(d[0]), value_bits<V::kMath>(d[1]),
                                                 value_bits<V::kMath>(d[2]), value_bits<V::kMath>(d[3]));
  }

  __device__ void send(int n, int chunk, const HeldSums<L::kRowTiles, kTiles>& sums) const {
    const uint32_t arrival = base_ + arrival_offset(n, chunk);
#pragma unroll
    for (int i = 0; i < L::kRowTiles; ++i) {
      const int row_tile = warp_ * L::kRowTiles + i, rank = row_tile / 2;
      const uint32_t arrival_there = address_in_block(arrival, rank);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int slot = ((place_.rank * 2 + row_tile % 2) * kTiles + tile) * 32 + place_.lane;
        const float(&c)[4] = sums.c[i][tile];
        send_16_bytes(
            address_in_block(base_ + static_cast<uint32_t>(received_offset(n, chunk) + slot * 16), rank), arrival_there,
            make_uint4(__float_as_uint(c[0]), __float_as_uint(c[1]), __float_as_uint(c[2]), __float_as_uint(c[3])));
      }
    }
  }

  /// Copies the gradients of a pass from shared memory to their rows, 16 bytes at a time.
  __device__ void store(int n, int chunk) const {
    constexpr int kRowVectors = kBlockK * Values::kBytes / 16, kVectors = kTiles * kTileRows * kRowVectors;
    constexpr int kUnitBytes = 4 * Values::kBytes;
    const int thread = static_cast<int>(threadIdx.x) % L::kSetThreads;
#pragma unroll
    for (int first = 0; first < kVectors; first += L::kSetThreads) {
      const int vector = first + thread, row = vector / kRowVectors, column = vector % kRowVectors * 16;
      const int batch = tile_index(chunk, 0) * kTileRows + row;
      const int unit = place_.rank * kBlockUnits + column / kUnitBytes;
      if (vector >= kVectors || batch >= a_.batch || unit >= a_.sizes.units) continue;
      std::byte* const to = static_cast<std::byte*>(a_.dgates) +
                            position(batch, a_.steps - 1 - n) * a_.sizes.units * kUnitBytes +
                            place_.rank * kBlockUnits * kUnitBytes + column;
      *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(gradients() + row / kTileRows * L::kTileBytes +
                                                                      row % kTileRows * L::kRowBytes + column);
    }
  }

  /// Adds up the lanes with other batch rows of the same unit.
  __device__ void store_biases() const {
    float* const to =
        bias_sums_ +
        static_cast<int64_t>((place_.cluster * V::kSets + place_.set) * L::kParts + place_.part) * 4 * a_.hidden +
        place_.unit;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      float sum = bias_[gate];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (t_ == 0 && place_.unit < a_.hidden) to[gate * a_.hidden] = sum;
    }
  }

  const PersistentBackwardArrays& a_;
  float* const bias_sums_;
  const int chunks_;
  std::byte* const shared_;
  const uint32_t base_;
  const PersistentPlace place_;
  const int warp_, g_, t_;
  HeldWeights<V::kMath, L::kRowTiles, L::kSteps> weights_;
  Saved saved_[L::kOwnTiles];
  int turn_ = 0;  // of the buffers of gradients
  float bias_[4] = {};
};

template <class V>
__global__ void __launch_bounds__(BackwardLayout<V>::kThreads, 1)
    recurrent_backward_kernel(const __grid_constant__ PersistentBackwardArrays a, float* bias_sums, int chunks) {
  extern __shared__ float4 memory[];
  BackwardBlock<V>(a, bias_sums, chunks, reinterpret_cast<std::byte*>(memory)).run();
}

}  // namespace

PersistentPlan plan_persistent_backward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape) {
  return make_persistent_plan(launch, math, shape, [](auto variant) {
    using V = decltype(variant);
    return PersistentKernel{reinterpret_cast<const void*>(recurrent_backward_kernel<V>), BackwardLayout<V>::kThreads,
                            BackwardLayout<V>::bytes};
  });
}

int persistent_bias_parts(MathMode math, const PersistentPlan& plan) {
  return plan.clusters * plan.sets * backward_parts(math, plan.blocks * kBlockUnits, plan.sets);
}

void launch_persistent_backward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                                const PersistentBackwardArrays& a, float* bias_sums) {
  with_variant(a.cell, math, a.hidden, plan.tiles, [&](auto variant) {
    using V = decltype(variant);
    launch_persistent(launch, plan, BackwardLayout<V>::kThreads, recurrent_backward_kernel<V>,
                      "recurrent_backward_kernel", a, bias_sums, plan.chunks);
  });
}

}  // namespace amdahl
