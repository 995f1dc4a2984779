// Forward over a whole sequence in one launch: a cluster of blocks holds the recurrent weights in registers and
// exchanges h after every step.
//
// A block computes the gates of its 32 units for the batch rows of its cluster. A warp has the rows of eight units: its
// first 16 rows of weights are gates 0 and 1 of them, the next 16 gates 2 and 3, so that a lane ends up with all gates
// of one unit for two batch rows of each tile. Where the registers of four warps cannot hold the weights, eight warps
// split k. Chunks of batch rows alternate: while one waits for h, the next is computed.
#include "ops/cuda_recurrent_launch.cuh"

namespace amdahl {
namespace {

/// Shared memory: h of two steps for every chunk, in rows of the batch; sums of the second part; states; arrivals.
template <class V>
struct ForwardLayout {
  using Values = Operand<V::kMath>;
  static constexpr int kSteps = V::kHidden / 16 / V::kParts;  // of k, per part
  static constexpr int kRowBytes = Values::row_bytes(V::kHidden), kTileBytes = kTileRows * kRowBytes;
  static constexpr int kChunkBytes = V::kTiles * kTileBytes;
  static constexpr int kPartBytes = kSteps * 16 * Values::kBytes;  // of a row
  static constexpr int kSumBytes = V::kParts > 1 ? kPartWarps * 2 * V::kTiles * 32 * 16 : 0;
  static constexpr int kStateBytes = V::kTiles * kPartWarps * 32 * 8;  // of a chunk
  static constexpr uint32_t kMessageBytes = V::kTiles * kTileRows * V::kHidden * Values::kBytes;
  static constexpr int kSenders = Values::kPer16Bytes / 2;  // lanes that hold the same 16 bytes of h
  static constexpr int kReceivers = V::kBlocks / kSenders;  // of each of them

  __host__ __device__ static constexpr int sums(int chunks) { return 2 * chunks * kChunkBytes; }
  __host__ __device__ static constexpr int states(int chunks) { return sums(chunks) + kSumBytes; }
  __host__ __device__ static constexpr int arrivals(int chunks) { return states(chunks) + chunks * kStateBytes; }
  __host__ __device__ static constexpr int bytes(int chunks) { return arrivals(chunks) + 16 * chunks; }
};

/// A row of weights [hidden] from k on; zeros past its end, and for a null row.
__device__ __forceinline__ void load_weights(float (&k_values)[4], const float* row, int k, int hidden, bool vector) {
  if (vector && row && k + 4 <= hidden) {
    const float4 packed = *reinterpret_cast<const float4*>(row + k);
    k_values[0] = packed.x, k_values[1] = packed.y, k_values[2] = packed.z, k_values[3] = packed.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) k_values[i] = row && k + i < hidden ? row[k + i] : 0.0f;
}

template <class V>
class ForwardBlock {
  using L = ForwardLayout<V>;
  using Values = Operand<V::kMath>;
  static constexpr RecurrentCell kCell = V::kCell;
  static constexpr int kGates = kNumGates<kCell>, kTiles = V::kTiles;

 public:
  __device__ ForwardBlock(const RecurrentForwardArrays& a, int chunks, std::byte* shared)
      : a_(a),
        chunks_(chunks),
        shared_(shared),
        base_(shared_address(shared)),
        place_(persistent_place<V>()),
        g_(place_.lane / 4),
        t_(place_.lane % 4) {
    open_arrivals(base_ + static_cast<uint32_t>(L::arrivals(chunks)), 2 * chunks, L::kMessageBytes);
  }

  __device__ void run() {
    wait_for_predecessor();
    load_all_weights();
    load_biases();
    if (place_.part == 0) {
      for (int chunk = 0; chunk < chunks_; ++chunk)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) *state(chunk, tile) = make_float2(0.0f, 0.0f);
      load_inputs(0, 0);
    }
    wait_for_peers();
    for (int step = 0; step < a_.steps; ++step)
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        HeldSums<2, kTiles> sums = {};
        if (step > 0) sums = recurrent_product(step, chunk);
        if (place_.part == 0) finish(step, chunk, sums);
      }
  }

 private:
  __device__ void load_all_weights() {
    const bool vector = a_.hidden % 4 == 0 && reinterpret_cast<uintptr_t>(a_.w_hidden) % 16 == 0;
    const auto row_of = [&](int gate) -> const float* {
      if (gate >= kGates || place_.unit >= a_.hidden) return nullptr;
      return a_.w_hidden + (static_cast<int64_t>(gate) * a_.hidden + place_.unit) * a_.hidden;
    };
#pragma unroll
    for (int step = 0; step < L::kSteps; ++step) {
      const int k = k_of_step<V::kMath>(place_.part * L::kSteps + step, t_);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        float values[4];
        load_weights(values, row_of(2 * tile), k, a_.hidden, vector);
        weights_.low[tile][step] = weight_piece<V::kMath>(values);
        load_weights(values, row_of(2 * tile + 1), k, a_.hidden, vector);
        weights_.high[tile][step] = weight_piece<V::kMath>(values);
      }
    }
  }

  /// Of LSTM, the sums of both biases. Of GRU, those of r and z, and both biases of n.
  __device__ void load_biases() {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      bias_[gate] = 0.0f;
      if (place_.unit >= a_.hidden) continue;
      const int at = min(gate, kGates - 1) * a_.hidden + place_.unit;
      if (kCell == RecurrentCell::lstm || gate < 2) bias_[gate] = a_.b_input[at] + a_.b_hidden[at];
      if (kCell == RecurrentCell::gru && gate >= 2) bias_[gate] = gate == 2 ? a_.b_input[at] : a_.b_hidden[at];
    }
  }

  __device__ int64_t batch_row(int chunk, int tile, int e) const {
    return ((place_.cluster * chunks_ + chunk) * kTiles + tile) * kTileRows + 2 * t_ + e;
  }
  __device__ bool holds(int64_t batch_row) const { return batch_row < a_.batch && place_.unit < a_.hidden; }

  /// What finish() will add: x w_input^T.
  __device__ void load_inputs(int step, int chunk) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t row = batch_row(chunk, tile, e);
        const float* const from = a_.gates + (row * a_.steps + step) * kGates * a_.hidden + place_.unit;
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) inputs_[tile][e][gate] = holds(row) ? from[gate * a_.hidden] : 0.0f;
      }
  }

  __device__ int rows_offset(int step, int chunk) const { return (step % 2 * chunks_ + chunk) * L::kChunkBytes; }
  __device__ uint32_t arrival_offset(int step, int chunk) const {
    return static_cast<uint32_t>(L::arrivals(chunks_) + (step % 2 * chunks_ + chunk) * 8);
  }
  __device__ float2* state(int chunk, int tile) const {
    const int index = (chunk * kTiles + tile) * kPartWarps * 32 + place_.group * 32 + place_.lane;
    return reinterpret_cast<float2*>(shared_ + L::states(chunks_)) + index;
  }

  /// h of the step before times the weights, complete in part 0.
  __device__ HeldSums<2, kTiles> recurrent_product(int step, int chunk) {
    const uint32_t arrival = base_ + arrival_offset(step - 1, chunk);
    wait_for_phase(arrival, static_cast<uint32_t>((step - 1) / 2 % 2));
    if (threadIdx.x == 0) expect_bytes(arrival, L::kMessageBytes);
    const std::byte* const rows =
        shared_ + rows_offset(step - 1, chunk) + g_ * L::kRowBytes + place_.part * L::kPartBytes + t_ * 16;
    HeldSums<2, kTiles> sums = multiply_held<kTiles, L::kTileBytes>(weights_, rows);
    if constexpr (V::kParts > 1) add_parts(sums, step == 1 && chunk == 0, step + 1 == a_.steps && chunk + 1 == chunks_);
    return sums;
  }

  __device__ void add_parts(HeldSums<2, kTiles>& sums, bool first, bool last) {
    float4* const own =
        reinterpret_cast<float4*>(shared_ + L::sums(chunks_)) + place_.group * 2 * kTiles * 32 + place_.lane;
    const int written = 1 + place_.group, read = 1 + kPartWarps + place_.group;
    if (place_.part > 0) {
      if (!first) meet(read);
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        const float(&c)[4] = sums.c[i / kTiles][i % kTiles];
        own[32 * i] = make_float4(c[0], c[1], c[2], c[3]);
      }
      announce(written);
      return;
    }
    meet(written);
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      float(&c)[4] = sums.c[i / kTiles][i % kTiles];
      const float4 other = own[32 * i];
      c[0] += other.x, c[1] += other.y, c[2] += other.z, c[3] += other.w;
    }
    if (!last) announce(read);
  }

  __device__ void finish(int step, int chunk, const HeldSums<2, kTiles>& sums) {
    CellOutput out[kTiles][2];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float2* const place = state(chunk, tile);
      float states[2] = {place->x, place->y};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float from_h[4] = {sums.c[0][tile][e], sums.c[0][tile][2 + e], sums.c[1][tile][e],
                                 sums.c[1][tile][2 + e]};
        float before[4];
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) before[gate] = inputs_[tile][e][gate] + bias_[gate];
        if constexpr (kCell == RecurrentCell::gru) before[3] = from_h[2] + bias_[3];
#pragma unroll
        for (int gate = 0; gate < (kCell == RecurrentCell::lstm ? 4 : 2); ++gate) before[gate] += from_h[gate];
        out[tile][e] = forward_cell<kCell>(before, states[e]);
      }
      *place = make_float2(states[0], states[1]);
      if (step + 1 < a_.steps) send(step, chunk, tile, out[tile][0].h, out[tile][1].h);
    }
    const bool wraps = chunk + 1 == chunks_;
    if (!wraps || step + 1 < a_.steps) load_inputs(wraps ? step + 1 : step, wraps ? 0 : chunk + 1);
    store(step, chunk, out);
  }

  /// Sends h of this warp's units for one tile to all blocks of the cluster.
  __device__ void send(int step, int chunk, int tile, float h0, float h1) {
    uint4 value;
    int column = (place_.rank * kBlockUnits + place_.group * 8) * Values::kBytes;
    if constexpr (V::kMath == MathMode::bf16) {
      const uint32_t pair = transpose_halves(pack_bf16(h0, h1));  // batch row g, units 2t and 2t + 1
      const int first = place_.lane - t_;
      value.x = __shfl_sync(0xffffffffu, pair, first);
      value.y = __shfl_sync(0xffffffffu, pair, first + 1);
      value.z = __shfl_sync(0xffffffffu, pair, first + 2);
      value.w = __shfl_sync(0xffffffffu, pair, first + 3);
    } else {
      uint32_t pair[2] = {value_bits<V::kMath>(h0), value_bits<V::kMath>(h1)};
      transpose_words(pair);
      const uint32_t other0 = __shfl_xor_sync(0xffffffffu, pair[0], 1);
      const uint32_t other1 = __shfl_xor_sync(0xffffffffu, pair[1], 1);
      value = t_ % 2 == 0 ? make_uint4(pair[0], pair[1], other0, other1) : make_uint4(other0, other1, pair[0], pair[1]);
      column += t_ / 2 * 16;
    }
    const uint32_t to =
        base_ + static_cast<uint32_t>(rows_offset(step, chunk) + tile * L::kTileBytes + g_ * L::kRowBytes + column);
    const uint32_t arrival = base_ + arrival_offset(step, chunk);
#pragma unroll
    for (int i = 0; i < L::kReceivers; ++i) {
      const int rank = t_ % L::kSenders * L::kReceivers + i;
      send_16_bytes(address_in_block(to, rank), address_in_block(arrival, rank), value);
    }
  }

  __device__ void store(int step, int chunk, const CellOutput (&out)[kTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t batch = batch_row(chunk, tile, e);
        if (!holds(batch)) continue;
        const CellOutput& o = out[tile][e];
        const int64_t row = batch * a_.steps + step, at = row * a_.hidden + place_.unit;
        if (!a_.last_step_only) a_.y[at] = o.h;
        if (a_.last_step_only && step + 1 == a_.steps) a_.y[batch * a_.hidden + place_.unit] = o.h;
        if (!a_.keep) continue;
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate)
          a_.gates[(row * kGates + gate) * a_.hidden + place_.unit] = o.gates[gate];
        a_.cells[at] = o.kept;
        if (step == 0) a_.h_before[at] = 0.0f;
        if (step + 1 < a_.steps) a_.h_before[at + a_.hidden] = o.h;
      }
  }

  const RecurrentForwardArrays& a_;
  const int chunks_;
  std::byte* const shared_;
  const uint32_t base_;
  const PersistentPlace place_;
  const int g_, t_;
  HeldWeights<V::kMath, 2, L::kSteps> weights_;
  float bias_[4];
  float inputs_[kTiles][2][kGates];
};

template <class V>
__global__ void __launch_bounds__(V::kThreads, 1)
    recurrent_forward_kernel(const __grid_constant__ RecurrentForwardArrays a, int chunks) {
  extern __shared__ float4 memory[];
  ForwardBlock<V>(a, chunks, reinterpret_cast<std::byte*>(memory)).run();
}

}  // namespace

PersistentPlan plan_persistent_forward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape) {
  return make_persistent_plan(
      launch, math, shape, [](auto variant) { return recurrent_forward_kernel<decltype(variant)>; },
      [](auto variant, int chunks) { return static_cast<size_t>(ForwardLayout<decltype(variant)>::bytes(chunks)); });
}

void launch_persistent_forward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                               const RecurrentForwardArrays& a) {
  with_variant(a.cell, math, a.hidden, plan.tiles, [&](auto variant) {
    using V = decltype(variant);
    launch_persistent(launch, plan, V::kThreads, recurrent_forward_kernel<V>, "recurrent_forward_kernel", a,
                      plan.chunks);
  });
}

}  // namespace amdahl
