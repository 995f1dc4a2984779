// Recurrent layers whose units are divided among ranks, on one GPU: the shards of all ranks by turns, their exchanges
// on the host, against a float64 reference of the whole layer.
#include <ostream>

#include "gpu_support.h"
#include "reference_recurrent.h"

namespace amdahl {
namespace {

struct ShardCase {
  RecurrentShape shape;
  int ranks;
  MathMode math;
};

std::ostream& operator<<(std::ostream& out, const ShardCase& c) {
  return out << (c.shape.cell == RecurrentCell::lstm ? "lstm" : "gru") << " batch " << c.shape.batch << " hidden "
             << c.shape.hidden << (c.shape.last_step_only ? " last" : "") << " ranks " << c.ranks << " "
             << to_string(c.math);
}

class RecurrentShardsGpuTest : public GpuTest, public ::testing::WithParamInterface<ShardCase> {};

/// Rows of a rank's units of each gate in [G * hidden, width].
std::vector<float> rows_of_units(const std::vector<float>& all, const RecurrentShape& s, int64_t width, int64_t first,
                                 int64_t held) {
  std::vector<float> part;
  for (int64_t gate = 0; gate < num_gates(s.cell); ++gate) {
    const auto begin = all.begin() + (gate * s.hidden + first) * width;
    part.insert(part.end(), begin, begin + held * width);
  }
  return part;
}
void place_units(const std::vector<float>& part, const RecurrentShape& s, int64_t width, int64_t first, int64_t held,
                 std::vector<float>& all) {
  for (int64_t gate = 0; gate < num_gates(s.cell); ++gate)
    std::copy_n(part.begin() + gate * held * width, held * width, all.begin() + (gate * s.hidden + first) * width);
}

struct RankMemory {
  RankMemory(Device& device, Stream& stream, const RecurrentShape& s, int64_t held, int64_t first,
             const test::RecurrentInputs<float>& in)
      : w_input(device, stream, rows_of_units(in.w_input, s, s.input, first, held)),
        w_hidden(device, stream, rows_of_units(in.w_hidden, s, s.hidden, first, held)),
        b_input(device, stream, rows_of_units(in.b_input, s, 1, first, held)),
        b_hidden(device, stream, rows_of_units(in.b_hidden, s, 1, first, held)),
        y(device, stream, test::output_elements(s)),
        dw_input(device, stream, num_gates(s.cell) * held * s.input),
        dw_hidden(device, stream, num_gates(s.cell) * held * s.hidden),
        db_input(device, stream, num_gates(s.cell) * held),
        db_hidden(device, stream, num_gates(s.cell) * held),
        dx(device, stream, s.batch * s.steps * s.input),
        d_gates(device, stream, s.batch * s.steps * 4 * held),
        d_own(device, stream, s.batch * held),
        d_cell(device, stream, s.batch * held),
        d_states(device, stream, s.batch * s.hidden) {}
  GpuArray<float> w_input, w_hidden, b_input, b_hidden, y, dw_input, dw_hidden, db_input, db_hidden, dx, d_gates, d_own,
      d_cell, d_states;
  std::unique_ptr<GpuArray<char>> saved;
  RecurrentShard shard{};
  RecurrentShardOps::Work work() { return {d_gates.data(), d_own.data(), d_cell.data(), d_states.data()}; }
};

std::vector<float> sum_of(const std::vector<std::vector<float>>& parts) {
  std::vector<float> sum = parts.front();
  for (size_t r = 1; r < parts.size(); ++r)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += parts[r][i];
  return sum;
}

TEST_P(RecurrentShardsGpuTest, EqualFloat64) {
  const RecurrentShape& s = GetParam().shape;
  const int64_t held = s.hidden / GetParam().ranks;
  const auto ops = make_cuda_ops(*device, {GetParam().math});
  RecurrentShardOps& cells = ops->recurrent().shards();
  ASSERT_TRUE(cells.takes(s.type));
  const auto in = test::random_recurrent(s, 17);
  const test::RecurrentResults want = test::recurrent_reference(s, in);
  auto x = floats(in.x), dy = floats(in.dy), all = floats(s.batch * s.hidden);
  std::vector<std::unique_ptr<RankMemory>> ranks;
  for (int r = 0; r < GetParam().ranks; ++r) {
    RankMemory& rank = *ranks.emplace_back(std::make_unique<RankMemory>(*device, *stream, s, held, r * held, in));
    rank.shard = {s,        held,
                  r * held, {rank.w_input.data(), rank.w_hidden.data(), rank.b_input.data(), rank.b_hidden.data()},
                  x.data(), nullptr};
    rank.saved = std::make_unique<GpuArray<char>>(*device, *stream, cells.saved_bytes(rank.shard));
    rank.shard.saved = rank.saved->data();
  }
  for (auto& rank : ranks) cells.begin(*stream, rank->shard);
  for (int64_t t = 0; t < s.steps; ++t) {
    for (size_t r = 0; r < ranks.size(); ++r)
      cells.step(*stream, ranks[r]->shard, t, all.data() + static_cast<int64_t>(r) * s.batch * held);
    for (auto& rank : ranks) cells.take_states(*stream, rank->shard, t, all.data(), rank->y.data());
  }
  const double limit = GetParam().math == MathMode::fp32 ? 1e-5 : GetParam().math == MathMode::tf32 ? 2e-3 : 1.5e-2;
  for (auto& rank : ranks) EXPECT_LT(relative_error(rank->y.get(), want.y), limit);
  for (const bool accumulate : {false, true}) {
    for (int64_t t = s.steps - 1; t >= 0; --t) {
      for (auto& rank : ranks) cells.step_gradients(*stream, rank->shard, t, dy.data(), rank->work());
      if (t == 0) continue;
      std::vector<std::vector<float>> parts;
      for (auto& rank : ranks) parts.push_back(rank->d_states.get());
      for (auto& rank : ranks) rank->d_states.set(sum_of(parts));
    }
    for (auto& rank : ranks)
      cells.finish_gradients(
          *stream, rank->shard, rank->work(),
          {rank->dw_input.data(), rank->dw_hidden.data(), rank->db_input.data(), rank->db_hidden.data()},
          accumulate ? nullptr : rank->dx.data(), accumulate);
    test::RecurrentInputs<float> got = in;  // of the same sizes
    std::vector<std::vector<float>> dx;
    for (auto& rank : ranks) {
      const int64_t first = rank->shard.first;
      place_units(rank->dw_input.get(), s, s.input, first, held, got.w_input);
      place_units(rank->dw_hidden.get(), s, s.hidden, first, held, got.w_hidden);
      place_units(rank->db_input.get(), s, 1, first, held, got.b_input);
      place_units(rank->db_hidden.get(), s, 1, first, held, got.b_hidden);
      dx.push_back(rank->dx.get());
    }
    const auto times = [&](std::vector<double> values) {
      for (double& value : values) value *= accumulate ? 2 : 1;
      return values;
    };
    EXPECT_LT(relative_error(got.w_input, times(want.gradients.w_input)), limit);
    EXPECT_LT(relative_error(got.w_hidden, times(want.gradients.w_hidden)), limit);
    EXPECT_LT(relative_error(got.b_input, times(want.gradients.b_input)), limit);
    EXPECT_LT(relative_error(got.b_hidden, times(want.gradients.b_hidden)), limit);
    EXPECT_LT(relative_error(sum_of(dx), want.gradients.x), limit);
  }
}

std::vector<ShardCase> shard_cases() {
  std::vector<ShardCase> all;
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru})
    for (const MathMode math : {MathMode::fp32, MathMode::tf32}) {
      all.push_back({{cell, 5, 7, 6, 12, false}, 2, math});
      all.push_back({{cell, 9, 4, 5, 12, true}, 3, math});
      all.push_back({{cell, 33, 3, 16, 256, false}, 2, math});
      all.push_back({{cell, 1, 1, 3, 2, true}, 2, math});
    }
  all.push_back({{RecurrentCell::lstm, 8, 5, 16, 64, false, DType::bf16}, 2, MathMode::bf16});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shapes, RecurrentShardsGpuTest, ::testing::ValuesIn(shard_cases()));

}  // namespace
}  // namespace amdahl
