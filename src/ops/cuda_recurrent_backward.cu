// Backward through a whole sequence in one launch: a cluster of blocks holds the recurrent weights in registers and
// exchanges partial sums of the gradient of h after every step.
//
// A block computes the gradients before the activations (d) of its 32 units, and multiplies them by its rows of the
// weights: its share of the gradient of h of all units, 16 units per row tile. Each share goes to the block that has
// the units, which adds the shares of all blocks in a fixed order. What is needed of the saved values is loaded and
// combined before that wait. Chunks of batch rows alternate: while one waits for its sums, the next is computed.
#include "ops/cuda_recurrent_launch.cuh"

namespace amdahl {
namespace {

inline constexpr int kBlockK = 4 * kBlockUnits;  // gradients of a block per batch row, ordered by unit, then gate

/// Number of parts that the row tiles are divided into, each with kPartWarps warps. A thread holds 64 registers of
/// weights, or 128 of f32 weights for 256 units.
__host__ __device__ constexpr int backward_parts(MathMode math, int hidden) {
  return math == MathMode::bf16 && hidden <= 128 ? 1 : 2;
}

/// Shared memory: received sums of two steps for every chunk; gradients of two chunks; states; arrivals.
template <class V>
struct BackwardLayout {
  using Values = Operand<V::kMath>;
  static constexpr int kParts = backward_parts(V::kMath, V::kHidden), kThreads = 32 * kPartWarps * kParts;
  static constexpr int kRowTiles = V::kHidden / 16 / (kPartWarps * kParts);  // per warp
  static constexpr int kSteps = kBlockK / 16;
  static constexpr int kRowBytes = Values::row_bytes(kBlockK), kTileBytes = kTileRows * kRowBytes;
  static constexpr int kGradientBytes = V::kTiles * kTileBytes;
  static constexpr int kChunkBytes = V::kBlocks * 2 * V::kTiles * 32 * 16;  // [sender, row tile, tile, lane] 16 bytes
  static constexpr int kStateBytes = V::kTiles * kPartWarps * 32 * 8;       // of a chunk
  static constexpr int kOwnTiles = (V::kTiles + kParts - 1) / kParts;       // for which a thread computes d

  __host__ __device__ static constexpr int gradients(int chunks) { return 2 * chunks * kChunkBytes; }
  __host__ __device__ static constexpr int states(int chunks) { return gradients(chunks) + 2 * kGradientBytes; }
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
  __device__ BackwardBlock(const RecurrentBackwardArrays& a, float* bias_sums, int chunks, std::byte* shared)
      : a_(a),
        bias_sums_(bias_sums),
        chunks_(chunks),
        shared_(shared),
        base_(shared_address(shared)),
        place_(persistent_place<V>()),
        warp_(static_cast<int>(threadIdx.x) / 32),
        g_(place_.lane / 4),
        t_(place_.lane % 4) {
    open_arrivals(base_ + static_cast<uint32_t>(L::arrivals(chunks)), 2 * chunks, L::kChunkBytes);
  }

  __device__ void run() {
    wait_for_predecessor();
    load_all_weights();
    for (int chunk = 0; chunk < chunks_; ++chunk)
#pragma unroll
      for (int own = 0; own < L::kOwnTiles; ++own)
        if (has_tile(own)) *state(chunk, own) = make_float2(0.0f, 0.0f);
    load_saved(0, 0);
    __syncwarp();
    wait_for_peers();
    for (int n = 0; n < a_.steps; ++n)  // the steps, last one first
      for (int chunk = 0; chunk < chunks_; ++chunk) pass(n, chunk);
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
  __device__ int64_t batch_row(int chunk, int own, int e) const {
    return ((place_.cluster * chunks_ + chunk) * kTiles + tile_of(own)) * kTileRows + 2 * t_ + e;
  }
  __device__ bool holds(int64_t batch_row) const { return batch_row < a_.batch && place_.unit < a_.hidden; }
  __device__ float2* state(int chunk, int own) const {
    const int index = (chunk * kTiles + tile_of(own)) * kPartWarps * 32 + place_.group * 32 + place_.lane;
    return reinterpret_cast<float2*>(shared_ + L::states(chunks_)) + index;
  }
  __device__ int received_offset(int n, int chunk) const { return (n % 2 * chunks_ + chunk) * L::kChunkBytes; }
  __device__ uint32_t arrival_offset(int n, int chunk) const {
    return static_cast<uint32_t>(L::arrivals(chunks_) + (n % 2 * chunks_ + chunk) * 8);
  }
  __device__ std::byte* gradients(int n, int chunk) const {
    return shared_ + L::gradients(chunks_) + (n * chunks_ + chunk) % 2 * L::kGradientBytes;
  }

  __device__ void load_saved(int n, int chunk) {
    const int step = a_.steps - 1 - n;
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        CellSaved& saved = saved_[own][e];
        saved = {};
        const int64_t batch = batch_row(chunk, own, e);
        if (!has_tile(own) || !holds(batch)) continue;
        const int64_t row = batch * a_.steps + step, at = row * a_.hidden + place_.unit;
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate)
          saved.gates[gate] = a_.gates[(row * kGates + gate) * a_.hidden + place_.unit];
        saved.kept = a_.cells[at];
        if (kCell == RecurrentCell::gru) saved.before = load_element<V::kMath>(a_.h_before, at);
        if (kCell == RecurrentCell::lstm && step > 0) saved.before = a_.cells[at - a_.hidden];
        if (!a_.last_step_only) saved.dy = a_.dy[at];
        if (a_.last_step_only && n == 0) saved.dy = a_.dy[batch * a_.hidden + place_.unit];
      }
  }

  __device__ void pass(int n, int chunk) {
    float d[L::kOwnTiles][2][4];
    find_gradients(n, chunk, d);
    __syncthreads();
    const bool wraps = chunk + 1 == chunks_;
    if (!wraps || n + 1 < a_.steps) load_saved(wraps ? n + 1 : n, wraps ? 0 : chunk + 1);
    __syncwarp();
    if (n + 1 < a_.steps) {
      const std::byte* const rows = gradients(n, chunk) + g_ * L::kRowBytes + t_ * 16;
      send(n, chunk, multiply_held<kTiles, L::kTileBytes>(weights_, rows, HeldSums<L::kRowTiles, kTiles>{}));
    }
    store(n, chunk, d);
  }

  /// The gradients before the activations of one step: in d, summed up for the biases, and in shared memory.
  __device__ void find_gradients(int n, int chunk, float (&d)[L::kOwnTiles][2][4]) {
    float2 recurrent[L::kOwnTiles] = {};
    CellFactors<kCell> factors[L::kOwnTiles][2];
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own)
#pragma unroll
      for (int e = 0; e < 2; ++e) factors[own][e] = CellFactors<kCell>(saved_[own][e]);
    if (n > 0) {
      const uint32_t arrival = base_ + arrival_offset(n - 1, chunk);
      wait_for_phase(arrival, static_cast<uint32_t>((n - 1) / 2 % 2));
      if (threadIdx.x == 0) expect_bytes(arrival, L::kChunkBytes);
#pragma unroll
      for (int own = 0; own < L::kOwnTiles; ++own)
        if (has_tile(own)) recurrent[own] = received_sum(n - 1, chunk, tile_of(own));
    }
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own) {
      if (!has_tile(own)) continue;
      float2* const place = state(chunk, own);
      float2 states = *place;
      factors[own][0].apply(recurrent[own].x, states.x, d[own][0]);
      factors[own][1].apply(recurrent[own].y, states.y, d[own][1]);
      *place = states;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int gate = 0; gate < 4; ++gate) bias_[gate] += d[own][e][gate];
        keep(gradients(n, chunk) + tile_of(own) * L::kTileBytes + (2 * t_ + e) * L::kRowBytes, d[own][e]);
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

  /// Writes a unit's four gradients to the batch row. GRU's last one, of n, does not reach h.
  __device__ void keep(std::byte* row, const float (&d)[4]) const {
    const float last = kCell == RecurrentCell::lstm ? d[3] : 0.0f;
    std::byte* const to = row + (place_.group * 8 + g_) * 4 * Values::kBytes;
    if constexpr (V::kMath == MathMode::bf16)
      *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(d[0], d[1]), pack_bf16(d[2], last));
    else
      *reinterpret_cast<uint4*>(to) = make_uint4(value_bits<V::kMath>(d[0]), value_bits<V::kMath>(d[1]),
                                                 value_bits<V::kMath>(d[2]), value_bits<V::kMath>(last));
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

  __device__ void store(int n, int chunk, const float (&d)[L::kOwnTiles][2][4]) const {
#pragma unroll
    for (int own = 0; own < L::kOwnTiles; ++own)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t batch = batch_row(chunk, own, e);
        if (!has_tile(own) || !holds(batch)) continue;
        const int64_t to = (batch * a_.steps + a_.steps - 1 - n) * 4 * a_.hidden + place_.unit;
#pragma unroll
        for (int gate = 0; gate < 4; ++gate)
          store_element<V::kMath>(a_.dgates, to + static_cast<int64_t>(gate) * a_.hidden, d[own][e][gate]);
      }
  }

  /// Adds up the lanes with other batch rows of the same unit.
  __device__ void store_biases() const {
    float* const to = bias_sums_ + (place_.cluster * L::kParts + place_.part) * 4 * a_.hidden + place_.unit;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      float sum = bias_[gate];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (t_ == 0 && place_.unit < a_.hidden) to[gate * a_.hidden] = sum;
    }
  }

  const RecurrentBackwardArrays& a_;
  float* const bias_sums_;
  const int chunks_;
  std::byte* const shared_;
  const uint32_t base_;
  const PersistentPlace place_;
  const int warp_, g_, t_;
  HeldWeights<V::kMath, L::kRowTiles, L::kSteps> weights_;
  CellSaved saved_[L::kOwnTiles][2];
  float bias_[4] = {};
};

template <class V>
__global__ void __launch_bounds__(BackwardLayout<V>::kThreads, 1)
    recurrent_backward_kernel(const __grid_constant__ RecurrentBackwardArrays a, float* bias_sums, int chunks) {
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
  return plan.clusters * backward_parts(math, plan.blocks * kBlockUnits);
}

void launch_persistent_backward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                                const RecurrentBackwardArrays& a, float* bias_sums) {
  with_variant(a.cell, math, a.hidden, plan.tiles, [&](auto variant) {
    using V = decltype(variant);
    launch_persistent(launch, plan, BackwardLayout<V>::kThreads, recurrent_backward_kernel<V>,
                      "recurrent_backward_kernel", a, bias_sums, plan.chunks);
  });
}

}  // namespace amdahl
