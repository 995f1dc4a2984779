#include "ops/recurrent/cuda_recurrent_parts.h"

#include <algorithm>
#include <limits>

namespace amdahl {

void check_recurrent_shape(const RecurrentShape& s) {
  if (s.type != DType::f32 && s.type != DType::bf16)
    throw Error(Cause::internal, "recurrent layers multiply f32 or bf16 on CUDA devices");
  constexpr int64_t kMost = std::numeric_limits<int>::max() / 4;
  if (s.batch < 1 || s.steps < 1 || s.input < 1 || s.hidden < 1 ||
      std::max({s.batch, s.steps, s.input, s.hidden}) > kMost)
    throw Error(Cause::internal, "a recurrent layer without rows, steps, inputs or units, or with too many");
}

void launch_recurrent_products(CudaContext& context, const StreamMemory& memory, const RecurrentProducts& a,
                               bool may_tune) {
  const int64_t gates = num_gates(a.cell) * a.units;
  const auto at = [&](const void* array, int64_t element) -> const void* {
    return static_cast<const char*>(array) + element * static_cast<int64_t>(size_of(a.from.type));
  };
  const auto product = [&](GemmCall call) {
    call.problem.stride_b = 4 * a.units;  // of dgates
    call.problem.type = a.from.type;
    context.gemm().run(memory.launch, memory.workspace, call, may_tune);
  };
  // Row-major dw[G, I] = d[rows, G]^T x[rows, I] is column-major dw(I, G) = x(I, rows) d(G, rows)^T.
  const auto weight = [&](const void* x, int64_t columns, int64_t first, int64_t num_rows, float* dw) {
    product({{columns, num_rows, a.rows, false, true, Epilogue::none, a.accumulate}, x, at(a.from.dgates, first), dw});
  };
  // Of GRU, n comes after the recurrent part of n, which does not reach x.
  const bool lstm = a.cell == RecurrentCell::lstm;
  const int64_t together = lstm ? gates : 2 * a.units, dn = 3 * a.units;
  weight(a.from.h_before, a.states, 0, gates, a.gradients.w_hidden);
  weight(a.from.x, a.input, 0, together, a.gradients.w_input);
  if (!lstm) weight(a.from.x, a.input, dn, a.units, a.gradients.w_input + together * a.input);
  if (!a.dx) return;
  product({{a.input, a.rows, together, false, false, Epilogue::none, false}, a.from.w_input, a.from.dgates, a.dx});
  if (!lstm)
    product({{a.input, a.rows, a.units, false, false, Epilogue::none, true},
             at(a.from.w_input, together * a.input),
             at(a.from.dgates, dn),
             a.dx});
}

}  // namespace amdahl
