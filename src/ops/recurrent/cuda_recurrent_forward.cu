// Forward over a whole sequence in one launch: a cluster of blocks holds the recurrent weights in registers and
// exchanges h after every step.
//
// A block computes the gates of its 32 units for the batch rows of its cluster. A warp has the rows of eight units: its
// first 16 rows of weights are gates 0 and 1 of them, the next 16 gates 2 and 3, so that a lane ends up with all gates
// of one unit for two batch rows of each tile. Where the registers of four warps cannot hold the weights, eight warps
// split k. Chunks of batch rows alternate: while one waits for h, the next is computed. Sets of warps with the same
// weights have chunks of their own: instructions of one set fill the latencies of the other. Up to 64 inputs,
// x w_input^T is computed while the warp would wait for h, with weights in shared memory; else it is read from memory.
#include "ops/recurrent/cuda_recurrent_forward.cuh"
#include "ops/recurrent/cuda_recurrent_launch.cuh"
#include "ops/recurrent/cuda_recurrent_records.cuh"

namespace amdahl {
namespace {

template <class V, int kInputSteps>
class ForwardBlock {
  using L = ForwardLayout<V, kInputSteps>;
  using Values = Operand<V::kMath>;
  using Piece = typename Values::Piece;
  static constexpr RecurrentCell kCell = V::kCell;
  static constexpr int kGates = kNumGates<kCell>, kTiles = V::kTiles;
  static constexpr bool kTakesInput = kInputSteps > 0;

 public:
  __device__ ForwardBlock(const PersistentForwardArrays& a, int chunks, std::byte* shared)
      : a_(a),
        chunks_(chunks),
        shared_(shared),
        base_(shared_address(shared)),
        place_(persistent_place<V>(L::kParts)),
        g_(place_.lane / 4),
        t_(place_.lane % 4) {
    open_arrivals(base_ + static_cast<uint32_t>(L::arrivals(chunks)), 2 * chunks, L::kMessageBytes);
  }

  __device__ void run() {
    wait_for_predecessor();
    load_all_weights();
    load_biases();
    if (place_.part == 0)
      for (int chunk = place_.set; chunk < chunks_; chunk += V::kSets)
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          *state(chunk, tile) = make_float2(0.0f, 0.0f);
          keep_h(0, chunk, tile, {});
        }
    if (place_.set < chunks_) load_inputs(0, place_.set);
    __syncwarp();
    wait_for_peers();
    for (int step = 0; step < a_.steps; ++step)
      for (int chunk = place_.set; chunk < chunks_; chunk += V::kSets) pass(step, chunk);
  }

 private:
  __device__ void pass(int step, int chunk) {
    HeldSums<2, kTiles> sums = {};
    const bool wraps = chunk + V::kSets >= chunks_, last = wraps && step + 1 == a_.steps;
    const int next_step = wraps ? step + 1 : step, next_chunk = wraps ? place_.set : chunk + V::kSets;
    if constexpr (kTakesInput) {
      multiply_inputs(sums);
      if (!last) load_inputs(next_step, next_chunk);
    }
    if (step > 0) sums = add_recurrent(step, chunk, sums);
    if constexpr (L::kParts > 1)
      if (kTakesInput || step > 0) add_parts(sums, step == (kTakesInput ? 0 : 1) && chunk == 0, last);
    if (place_.part > 0) return;
    CellOutput out[kTiles][2];
    uint4 h[kTiles] = {};
    finish(step, chunk, sums, out, h);
    if (!kTakesInput && !last) load_inputs(next_step, next_chunk);
    store(step, chunk, out, h);
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
      for (int row = 0; row < 2; ++row) {
        const int k = k_of_step<V::kMath>(place_.part * L::kOwnInputSteps + step, t_);
        Piece pieces[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int slot = 2 * row + i;
          const int gate = kCell == RecurrentCell::lstm || slot < 2 ? slot : slot == 3 ? 2 : kGates;
          float values[4];
          load_four(values, weight_row(a_.w_input, gate, a_.input), k, a_.input, input_vector);
          pieces[i] = weight_piece<V::kMath>(values);
        }
#pragma unroll
        for (int i = 0; i < L::kPairWords; ++i)
          *input_weights(step, row, i) =
              make_uint4(pieces[0].r[2 * i], pieces[1].r[2 * i], pieces[0].r[2 * i + 1], pieces[1].r[2 * i + 1]);
      }
  }

  /// This thread's weights of the inputs, in the order in which the tensor cores take them; no other thread uses it.
  __device__ uint4* input_weights(int step, int row, int i) const {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    return reinterpret_cast<uint4*>(shared_ + L::inputs(chunks_)) +
           (((warp * L::kOwnInputSteps + step) * 2 + row) * L::kPairWords + i) * 32 + place_.lane;
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

  /// Of all tiles of the batch.
  __device__ int tile_index(int chunk, int tile) const { return (place_.cluster * chunks_ + chunk) * kTiles + tile; }
  /// Of a row of the batch in the arrays of rows.
  __device__ int64_t position(int row, int step) const { return static_cast<int64_t>(row) * a_.steps + step; }
  __device__ std::byte* operand(int64_t position, int element) const {
    return static_cast<std::byte*>(a_.operands) + (position * a_.sizes.width + element) * Values::kBytes;
  }

  /// What the next pass reads: rows of x, or x w_input^T.
  __device__ void load_inputs(int step, int chunk) {
    if constexpr (kTakesInput) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int row = min(tile_index(chunk, tile) * kTileRows + g_, a_.batch - 1);  // others are not stored
        const std::byte* const x = operand(position(row, step), 8 * a_.sizes.groups);
        const std::byte* const from = x + place_.part * L::kOwnInputSteps * 16 * Values::kBytes + t_ * 16;
#pragma unroll
        for (int load = 0; load < L::kInputLoads; ++load)
          x_[tile][load] = *reinterpret_cast<const uint4*>(from + load * 64);
        if (place_.group == 0 && place_.part == 0 && t_ < kMostInputs * Values::kBytes / 128 && step + 1 < a_.steps)
          prefetch_line(x + static_cast<int64_t>(a_.sizes.width) * Values::kBytes + t_ * 128);
      }
      __syncwarp();
      return;
    }
    if (place_.part > 0) return;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = tile_index(chunk, tile) * kTileRows + 2 * t_ + e;
        const bool holds = row < a_.batch && place_.unit < a_.hidden;
        const float* const from = a_.products + position(row, step) * kGates * a_.hidden + place_.unit;
#pragma unroll
        for (int gate = 0; gate < kGates; ++gate) products_[tile][e][gate] = holds ? from[gate * a_.hidden] : 0.0f;
      }
  }

  __device__ void multiply_inputs(HeldSums<2, kTiles>& sums) const {
#pragma unroll
    for (int own = 0; own < L::kOwnInputSteps; ++own) {
      Piece low[2], high[2];
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int i = 0; i < L::kPairWords; ++i) {
          const uint4 pair = *input_weights(own, row, i);
          low[row].r[2 * i] = pair.x, high[row].r[2 * i] = pair.y;
          low[row].r[2 * i + 1] = pair.z, high[row].r[2 * i + 1] = pair.w;
        }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint4 packed = x_[tile][own / L::kStepsPerLoad];
        const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
        Piece rows;
#pragma unroll
        for (int r = 0; r < Values::kFragmentRegisters; ++r)
          rows.r[r] = input_bits(words[own % L::kStepsPerLoad * Values::kFragmentRegisters + r]);
#pragma unroll
        for (int row = 0; row < 2; ++row) multiply_step<V::kMath>(sums.c[row][tile], low[row], high[row], rows);
      }
    }
  }
  /// As operands hold them, f32 is not rounded to tf32.
  static __device__ uint32_t input_bits(uint32_t bits) {
    return V::kMath == MathMode::tf32 ? round_to_tf32(__uint_as_float(bits)) : bits;
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
    if (place_.leads()) expect_bytes(arrival, L::kMessageBytes);
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

  /// The cells of this warp's units, and their h as 16-byte parts of rows of the batch (part_of_row).
  __device__ void finish(int step, int chunk, const HeldSums<2, kTiles>& sums, CellOutput (&out)[kTiles][2],
                         uint4 (&h)[kTiles]) {
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
        out[tile][e] = forward_cell<kCell, V::kFast>(before, states[e]);
      }
      *place = make_float2(states[0], states[1]);
      if (step + 1 < a_.steps) {
        h[tile] = part_of_row(out[tile][0].h, out[tile][1].h);
        send(step, chunk, tile, h[tile]);
      }
    }
  }

  /// From h of one unit in rows 2t and 2t + 1: h of row g, of bf16 all eight units, of f32 four, the later ones in
  /// lanes with t >= 2.
  __device__ uint4 part_of_row(float h0, float h1) const {
    if constexpr (V::kMath == MathMode::bf16) {
      const uint32_t pair = transpose_halves(pack_bf16(h0, h1));  // batch row g, units 2t and 2t + 1
      const int first = place_.lane - t_;
      return make_uint4(__shfl_sync(0xffffffffu, pair, first), __shfl_sync(0xffffffffu, pair, first + 1),
                        __shfl_sync(0xffffffffu, pair, first + 2), __shfl_sync(0xffffffffu, pair, first + 3));
    } else {
      uint32_t pair[2] = {__float_as_uint(h0), __float_as_uint(h1)};
      transpose_words(pair);
      const uint32_t other0 = __shfl_xor_sync(0xffffffffu, pair[0], 1);
      const uint32_t other1 = __shfl_xor_sync(0xffffffffu, pair[1], 1);
      return t_ % 2 == 0 ? make_uint4(pair[0], pair[1], other0, other1) : make_uint4(other0, other1, pair[0], pair[1]);
    }
  }
  /// Where that part is among the warp's eight units.
  __device__ int part_bytes() const { return V::kMath == MathMode::bf16 ? 0 : t_ / 2 * 16; }

  /// Sends h of this warp's units for one tile to all blocks of the cluster.
  __device__ void send(int step, int chunk, int tile, const uint4& h) {
    uint4 value = h;
    if constexpr (V::kMath == MathMode::tf32)
      value = make_uint4(input_bits(h.x), input_bits(h.y), input_bits(h.z), input_bits(h.w));
    const int column = place_.all_group * 8 * Values::kBytes + part_bytes();
    const uint32_t to =
        base_ + static_cast<uint32_t>(rows_offset(step, chunk) + tile * L::kTileBytes + g_ * L::kRowBytes + column);
    const uint32_t arrival = base_ + arrival_offset(step, chunk);
#pragma unroll
    for (int i = 0; i < L::kReceivers; ++i) {
      const int rank = t_ % L::kSenders * L::kReceivers + i;
      send_16_bytes(address_in_block(to, rank), address_in_block(arrival, rank), value);
    }
  }

  /// h as what step `step` of a tile reads, for the gradient of the weights.
  __device__ void keep_h(int step, int chunk, int tile, const uint4& h) const {
    const int row = tile_index(chunk, tile) * kTileRows + g_;
    const bool stores = V::kMath == MathMode::bf16 ? t_ == 0 : t_ % 2 == 0;
    if (!a_.keep || !stores || row >= a_.batch || place_.all_group >= a_.sizes.groups) return;
    *reinterpret_cast<uint4*>(operand(position(row, step), 8 * place_.all_group) + part_bytes()) = h;
  }

  __device__ void store(int step, int chunk, const CellOutput (&out)[kTiles][2], const uint4 (&h)[kTiles]) const {
    const bool last = step + 1 == a_.steps;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int index = tile_index(chunk, tile);
      if (index >= a_.sizes.tiles || place_.all_group >= a_.sizes.groups) continue;
      if (a_.keep) {
        const int64_t at = record_index(a_.sizes, a_.steps, index, step, place_.all_group, place_.lane);
        static_cast<GateRecord<V::kMath>*>(a_.gates)[at] = gate_record<V::kMath, kCell>(out[tile][0], out[tile][1]);
        if (kCell == RecurrentCell::lstm)
          reinterpret_cast<float2*>(a_.cells)[at] = make_float2(out[tile][0].kept, out[tile][1].kept);
        if (!last) keep_h(step + 1, chunk, tile, h[tile]);
      }
      if (a_.last_step_only && !last) continue;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = index * kTileRows + 2 * t_ + e;
        if (row >= a_.batch || place_.unit >= a_.hidden) continue;
        const int64_t to = a_.last_step_only ? row : position(row, step);
        a_.y[to * a_.hidden + place_.unit] = out[tile][e].h;
      }
    }
  }

  const PersistentForwardArrays& a_;
  const int chunks_;
  std::byte* const shared_;
  const uint32_t base_;
  const PersistentPlace place_;
  const int g_, t_;
  HeldWeights<V::kMath, 2, L::kSteps> weights_;
  float bias_[4];
  uint4 x_[kTiles][kTakesInput ? L::kInputLoads : 1];  // of rows g of the tiles
  float products_[kTiles][2][kGates];
};

template <class V, int kInputSteps>
__global__ void __launch_bounds__(ForwardLayout<V, kInputSteps>::kThreads, 1)
    recurrent_forward_kernel(const __grid_constant__ PersistentForwardArrays a, int chunks) {
  extern __shared__ float4 memory[];
  ForwardBlock<V, kInputSteps>(a, chunks, reinterpret_cast<std::byte*>(memory)).run();
}

template <class V, int kInputSteps>
PersistentKernel forward_kernel() {
  using L = ForwardLayout<V, kInputSteps>;
  return {reinterpret_cast<const void*>(recurrent_forward_kernel<V, kInputSteps>), L::kThreads, L::bytes};
}

template <class V, int kInputSteps>
void launch_forward(const KernelLaunch& launch, const PersistentPlan& plan, const PersistentForwardArrays& a) {
  launch_persistent(launch, plan, ForwardLayout<V, kInputSteps>::kThreads, recurrent_forward_kernel<V, kInputSteps>,
                    "recurrent_forward_kernel", a, plan.chunks);
}

}  // namespace

PersistentPlan plan_persistent_forward(const KernelLaunch& launch, MathMode math, const RecurrentShape& shape) {
  return make_persistent_plan(launch, math, shape, [&](auto variant) {
    using V = decltype(variant);
    return shape.input <= kMostInputs ? forward_kernel<V, kMostInputs / 16>() : forward_kernel<V, 0>();
  });
}

void launch_persistent_forward(const KernelLaunch& launch, MathMode math, const PersistentPlan& plan,
                               const PersistentForwardArrays& a) {
  with_variant(a.cell, math, a.hidden, plan.tiles, [&](auto variant) {
    using V = decltype(variant);
    if (!a.products) return launch_forward<V, kMostInputs / 16>(launch, plan, a);
    launch_forward<V, 0>(launch, plan, a);
  });
}

}  // namespace amdahl
