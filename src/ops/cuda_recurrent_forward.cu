// Forward over a whole sequence in one launch: a cluster of blocks holds the recurrent weights in registers and
// exchanges h after every step.
//
// A block computes the gates of its 32 units for the batch rows of its cluster. A warp has the rows of eight units: its
// first 16 rows of weights are gates 0 and 1 of them, the next 16 gates 2 and 3, so that a lane ends up with all gates
// of one unit for two batch rows of each tile. Where the registers of four warps cannot hold the weights, eight warps
// split k. Chunks of batch rows alternate: while one waits for h, the next is computed. Up to 64 inputs, x w_input^T is
// computed while the warp would wait for h, with weights in shared memory; else it is read from memory.
#include "ops/cuda_recurrent_launch.cuh"

namespace amdahl {
namespace {

inline constexpr int kMostInputs = 64;

/// kInputSteps: of 16 inputs each that the kernel multiplies itself, or 0. Shared memory: h of two steps for every
/// chunk, in rows of the batch; sums of the second part; weights of the inputs; states; arrivals.
template <class V, int kInputSteps>
struct ForwardLayout {
  using Values = Operand<V::kMath>;
  static constexpr int kParts = Values::kHalf || V::kHidden <= 128 ? 1 : 2;  // a thread holds 128 registers of weights
  static constexpr int kThreads = 32 * kPartWarps * kParts;
  static constexpr int kSteps = V::kHidden / 16 / kParts;  // of k, per part
  static constexpr int kRowBytes = Values::row_bytes(V::kHidden), kTileBytes = kTileRows * kRowBytes;
  static constexpr int kChunkBytes = V::kTiles * kTileBytes;
  static constexpr int kPartBytes = kSteps * 16 * Values::kBytes;  // of a row
  static constexpr int kSumBytes = kParts > 1 ? kPartWarps * 2 * V::kTiles * 32 * 16 : 0;
  static constexpr int kOwnInputSteps = kInputSteps / kParts;
  static constexpr int kPieceBytes = 4 * Values::kFragmentRegisters;
  static constexpr int kInputBytes = kInputSteps * kPartWarps * 4 * 32 * kPieceBytes;
  static constexpr int kStateBytes = V::kTiles * kPartWarps * 32 * 8;  // of a chunk
  static constexpr uint32_t kMessageBytes = V::kTiles * kTileRows * V::kHidden * Values::kBytes;
  static constexpr int kSenders = Values::kPer16Bytes / 2;  // lanes that hold the same 16 bytes of h
  static constexpr int kReceivers = V::kBlocks / kSenders;  // of each of them

  __host__ __device__ static constexpr int sums(int chunks) { return 2 * chunks * kChunkBytes; }
  __host__ __device__ static constexpr int inputs(int chunks) { return sums(chunks) + kSumBytes; }
  __host__ __device__ static constexpr int states(int chunks) { return inputs(chunks) + kInputBytes; }
  __host__ __device__ static constexpr int arrivals(int chunks) { return states(chunks) + chunks * kStateBytes; }
  __host__ __device__ static constexpr int bytes(int chunks) { return arrivals(chunks) + 16 * chunks; }
};

/// Four values of a row from k on; zeros past its end, and for a null row.
__device__ __forceinline__ void load_four(float (&values)[4], const float* row, int k, int num_k, bool vector) {
  if (vector && row && k + 4 <= num_k) {
    const float4 packed = *reinterpret_cast<const float4*>(row + k);
    values[0] = packed.x, values[1] = packed.y, values[2] = packed.z, values[3] = packed.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = row && k + i < num_k ? row[k + i] : 0.0f;
}

/// Whether load_four may load 16 bytes at a time.
__device__ __forceinline__ bool loads_vectors(const float* rows, int num_k) {
  return num_k % 4 == 0 && reinterpret_cast<uintptr_t>(rows) % 16 == 0;
}

template <class V, int kInputSteps>
class ForwardBlock {
  using L = ForwardLayout<V, kInputSteps>;
  using Values = Operand<V::kMath>;
  struct alignas(L::kPieceBytes) InputPiece : Values::Piece {
    InputPiece() = default;
    __device__ InputPiece(const typename Values::Piece& piece) : Values::Piece(piece) {}
  };
  static constexpr RecurrentCell kCell = V::kCell;
  static constexpr int kGates = kNumGates<kCell>, kTiles = V::kTiles;
  static constexpr bool kTakesInput = kInputSteps > 0;

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
    if (place_.part == 0)
      for (int chunk = 0; chunk < chunks_; ++chunk)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) *state(chunk, tile) = make_float2(0.0f, 0.0f);
    load_inputs(0, 0);
    __syncwarp();
    wait_for_peers();
    for (int step = 0; step < a_.steps; ++step)
      for (int chunk = 0; chunk < chunks_; ++chunk) pass(step, chunk);
  }

 private:
  __device__ void pass(int step, int chunk) {
    HeldSums<2, kTiles> sums = {};
    const bool wraps = chunk + 1 == chunks_, last = wraps && step + 1 == a_.steps;
    const int next_step = wraps ? step + 1 : step, next_chunk = wraps ? 0 : chunk + 1;
    if constexpr (kTakesInput) {
      multiply_inputs(sums);
      if (!last) load_inputs(next_step, next_chunk);
    }
    if (step > 0) sums = add_recurrent(step, chunk, sums);
    if constexpr (L::kParts > 1)
      if (kTakesInput || step > 0) add_parts(sums, step == (kTakesInput ? 0 : 1) && chunk == 0, last);
    if (place_.part > 0) return;
    CellOutput out[kTiles][2];
    finish(step, chunk, sums, out);
    if (!kTakesInput && !last) load_inputs(next_step, next_chunk);
    store(step, chunk, out);
  }

  __device__ const float* weight_row(const float* weights, int gate, int width) const {
    if (gate >= kGates || place_.unit >= a_.hidden) return nullptr;
    return weights + (static_cast<int64_t>(gate) * a_.hidden + place_.unit) * width;
  }
  /// Where the sum of a gate's input part is kept: that of GRU's n apart from its recurrent part.
  static __device__ constexpr int input_slot(int gate) { return kCell == RecurrentCell::gru && gate == 2 ? 3 : gate; }

  __device__ void load_all_weights() {
    const bool vector = loads_vectors(a_.w_hidden, a_.hidden);
#pragma unroll
    for (int step = 0; step < L::kSteps; ++step) {
      const int k = k_of_step<V::kMath>(place_.part * L::kSteps + step, t_);
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) {
        float values[4];
        load_four(values, weight_row(a_.w_hidden, gate, a_.hidden), k, a_.hidden, vector);
        (gate % 2 == 0 ? weights_.low : weights_.high)[gate / 2][step] = weight_piece<V::kMath>(values);
      }
    }
    const bool input_vector = kTakesInput && loads_vectors(a_.w_input, a_.input);
    for (int step = 0; step < L::kOwnInputSteps; ++step)
#pragma unroll
      for (int slot = 0; slot < 4; ++slot) {
        const int k = k_of_step<V::kMath>(place_.part * L::kOwnInputSteps + step, t_);
        const int gate = kCell == RecurrentCell::lstm || slot < 2 ? slot : slot == 3 ? 2 : kGates;
        float values[4];
        load_four(values, weight_row(a_.w_input, gate, a_.input), k, a_.input, input_vector);
        *input_weights(step, slot) = weight_piece<V::kMath>(values);
      }
  }

  /// This thread's piece of the inputs' weights; no other thread uses it.
  __device__ InputPiece* input_weights(int step, int slot) const {
    const int warp = place_.part * kPartWarps + place_.group;
    return reinterpret_cast<InputPiece*>(shared_ + L::inputs(chunks_)) +
           ((warp * L::kOwnInputSteps + step) * 4 + slot) * 32 + place_.lane;
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

  /// What the next pass reads: rows of x, or x w_input^T.
  __device__ void load_inputs(int step, int chunk) {
    if constexpr (kTakesInput) {
      const bool vector = loads_vectors(a_.x, a_.input);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int64_t row = batch_row(chunk, tile, 0) - 2 * t_ + g_;
        const float* const from = row < a_.batch ? a_.x + (row * a_.steps + step) * a_.input : nullptr;
#pragma unroll
        for (int own = 0; own < L::kOwnInputSteps; ++own)
          load_four(x_[tile][own], from, k_of_step<V::kMath>(place_.part * L::kOwnInputSteps + own, t_), a_.input,
                    vector);
      }
      __syncwarp();
      return;
    }
    if (place_.part > 0) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int64_t row = batch_row(chunk, tile, e);
        const float* const from = a_.gates + (row * a_.steps + step) * kGates * a_.hidden + place_.unit;
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) products_[tile][e][gate] = holds(row) ? from[gate * a_.hidden] : 0.0f;
      }
  }

  __device__ void multiply_inputs(HeldSums<2, kTiles>& sums) const {
#pragma unroll
    for (int own = 0; own < L::kOwnInputSteps; ++own) {
      InputPiece weights[4];
#pragma unroll
      for (int slot = 0; slot < 4; ++slot) weights[slot] = *input_weights(own, slot);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const auto rows = weight_piece<V::kMath>(x_[tile][own]);
        multiply_step<V::kMath>(sums.c[0][tile], weights[0], weights[1], rows);
        multiply_step<V::kMath>(sums.c[1][tile], weights[2], weights[3], rows);
      }
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

  /// sums, and h of the step before times the weights of this part.
  __device__ HeldSums<2, kTiles> add_recurrent(int step, int chunk, const HeldSums<2, kTiles>& sums) const {
    const uint32_t arrival = base_ + arrival_offset(step - 1, chunk);
    wait_for_phase(arrival, static_cast<uint32_t>((step - 1) / 2 % 2));
    if (threadIdx.x == 0) expect_bytes(arrival, L::kMessageBytes);
    __syncwarp();
    const std::byte* const rows =
        shared_ + rows_offset(step - 1, chunk) + g_ * L::kRowBytes + place_.part * L::kPartBytes + t_ * 16;
    return multiply_held<kTiles, L::kTileBytes>(weights_, rows, sums);
  }

  /// Adds the sums of part 1 to those of part 0.
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

  __device__ void finish(int step, int chunk, const HeldSums<2, kTiles>& sums, CellOutput (&out)[kTiles][2]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float2* const place = state(chunk, tile);
      float states[2] = {place->x, place->y};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float slots[4];
#pragma unroll
        for (int slot = 0; slot < 4; ++slot) slots[slot] = sums.c[slot / 2][tile][slot % 2 * 2 + e];
        if constexpr (!kTakesInput)
#pragma unroll
          for (int gate = 0; gate < kGates; ++gate) slots[input_slot(gate)] += products_[tile][e][gate];
        float before[4];
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) before[gate] = slots[input_slot(gate)] + bias_[gate];
        if constexpr (kCell == RecurrentCell::gru) before[3] = slots[2] + bias_[3];
        out[tile][e] = forward_cell<kCell>(before, states[e]);
      }
      *place = make_float2(states[0], states[1]);
      if (step + 1 < a_.steps) send(step, chunk, tile, out[tile][0].h, out[tile][1].h);
    }
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
        if (step == 0) store_element<V::kMath>(a_.h_before, at, 0.0f);
        if (step + 1 < a_.steps) store_element<V::kMath>(a_.h_before, at + a_.hidden, o.h);
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
  float x_[kTiles][kTakesInput ? L::kOwnInputSteps : 1][4];  // rows g of the tiles
  float products_[kTiles][2][kGates];
};

template <class V, int kInputSteps>
__global__ void __launch_bounds__(ForwardLayout<V, kInputSteps>::kThreads, 1)
    recurrent_forward_kernel(const __grid_constant__ RecurrentForwardArrays a, int chunks) {
  extern __shared__ float4 memory[];
  ForwardBlock<V, kInputSteps>(a, chunks, reinterpret_cast<std::byte*>(memory)).run();
}

template <class V, int kInputSteps>
PersistentKernel forward_kernel() {
  using L = ForwardLayout<V, kInputSteps>;
  return {reinterpret_cast<const void*>(recurrent_forward_kernel<V, kInputSteps>), L::kThreads, L::bytes};
}

template <class V, int kInputSteps>
void launch_forward(const KernelLaunch& launch, const PersistentPlan& plan, const RecurrentForwardArrays& a) {
  launch_persistent(launch, plan, ForwardLayout<V, kInputSteps>::kThreads, recurrent_forward_kernel<V, kInputSteps>,
                    "recurrent_forward_kernel", a, plan.chunks);
}

}  // namespace

PersistentPlan plan_persistent_forward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape) {
  const bool takes_input = shape.input <= kMostInputs;
  PersistentPlan plan = make_persistent_plan(launch, math, shape, [&](auto variant) {
    using V = decltype(variant);
    return takes_input ? forward_kernel<V, kMostInputs / 16>() : forward_kernel<V, 0>();
  });
  plan.takes_input = takes_input && plan.clusters > 0;
  return plan;
}

void launch_persistent_forward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                               const RecurrentForwardArrays& a) {
  with_variant(a.cell, math, a.hidden, plan.tiles, [&](auto variant) {
    using V = decltype(variant);
    if (plan.takes_input) return launch_forward<V, kMostInputs / 16>(launch, plan, a);
    launch_forward<V, 0>(launch, plan, a);
  });
}

}  // namespace amdahl
