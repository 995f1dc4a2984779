// Data of collectives: the predicted results are exact in every type and in every order of the ranks, and the names.
#include "comm/collective_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "base/small_floats.h"
#include "comm/collective_call.h"
#include "comm/reduce_kernels.h"
#include "errors.h"

namespace amdahl {
namespace {

constexpr DType kAllTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                               DType::i32, DType::i64, DType::u8,  DType::u32};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

// Whether a type holds the integer exactly.
bool holds(DType type, int64_t value) {
  const auto number = static_cast<float>(value);
  switch (type) {
    case DType::f16:
      return to_float(to_half(number)) == number;
    case DType::bf16:
      return to_float(to_bfloat(number)) == number;
    case DType::f32:
      return static_cast<int64_t>(number) == value;
    case DType::u8:
      return value >= 0 && value <= 255;
    case DType::u32:
      return value >= 0 && value <= std::numeric_limits<uint32_t>::max();
    case DType::i32:
      return value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
    default:
      return true;
  }
}

int64_t combined(ReduceOp op, int64_t a, int64_t b) {
  if (op == ReduceOp::prod) return a * b;
  if (op == ReduceOp::min) return std::min(a, b);
  if (op == ReduceOp::max) return std::max(a, b);
  return a + b;
}

// NCCL adds in the type itself, in an order of its choice: rings, trees.
TEST(CollectiveData, EveryPartialResultIsExactInEveryTypeAndOrder) {
  std::mt19937 random(41);
  for (const int world : {1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 32, 48, 64})
    for (const DType type : kAllTypes)
      for (const ReduceOp op : kAllOps) {
        const CollectiveData data{type, op, world, 5};
        std::vector<int> order(static_cast<size_t>(world));
        std::iota(order.begin(), order.end(), 0);
        for (size_t index = 0; index < 60; ++index) {
          std::shuffle(order.begin(), order.end(), random);
          int64_t total = data.value(order[0], index);
          ASSERT_TRUE(holds(type, total));
          for (size_t i = 1; i < order.size(); ++i) {
            total = combined(op, total, data.value(order[i], index));
            ASSERT_TRUE(holds(type, total))
                << fmt::format("{} of {} ranks in {}: {}", to_string(op), world, to_string(type), total);
          }
          if (op == ReduceOp::avg) {
            ASSERT_EQ(total % world, 0);
            total /= world;
          }
          ASSERT_EQ(data.reduced(index), total);
        }
      }
}

TEST(CollectiveData, SaysSomethingForEveryNumberOfRanks) {
  for (const int world : {1, 2, 8, 16, 17, 64})
    for (const ReduceOp op : kAllOps) {
      const CollectiveData data{DType::u8, op, world, 6};
      std::map<int64_t, int> results;
      for (size_t index = 0; index < 500; ++index) ++results[data.reduced(index)];
      EXPECT_GE(results.size(), 2u) << fmt::format("{} of {} ranks is always the same", to_string(op), world);
      for (int rank = 0; rank < world; ++rank) {  // a rank that is left out must show
        int changed = 0;
        for (size_t index = 0; index < 500 && changed == 0; ++index) {
          int64_t without = 0;
          bool first = true;
          for (int other = 0; other < world; ++other) {
            if (other == rank) continue;
            without = first ? data.value(other, index) : combined(op, without, data.value(other, index));
            first = false;
          }
          const int64_t all = op == ReduceOp::avg ? data.reduced(index) * world : data.reduced(index);
          changed += world == 1 || without != all;
        }
        EXPECT_GT(changed, 0) << fmt::format("{} of {} ranks does not need rank {}", to_string(op), world, rank);
      }
    }
}

TEST(CollectiveData, DependsOnSeedRankAndIndex) {
  const auto values = [](uint64_t seed, int rank, size_t first) {
    std::vector<int64_t> all;
    for (size_t i = 0; i < 64; ++i)
      all.push_back(CollectiveData{DType::i32, ReduceOp::sum, 4, seed}.value(rank, first + i));
    return all;
  };
  EXPECT_EQ(values(1, 0, 0), values(1, 0, 0));
  EXPECT_NE(values(1, 0, 0), values(2, 0, 0));
  EXPECT_NE(values(1, 0, 0), values(1, 1, 0));
  EXPECT_NE(values(1, 0, 0), values(1, 0, 64));
}

TEST(CollectiveData, AFillInPiecesIsTheFillOfAll) {
  for (const DType type : kAllTypes) {
    const CollectiveData data{type, ReduceOp::max, 3, 8};
    const size_t bytes = size_of(type), count = 133;
    std::vector<char> whole(count * bytes), pieces(count * bytes);
    data.fill(whole.data(), 2, 0, count);
    for (size_t first = 0; first < count; first += 10)
      data.fill(pieces.data() + first * bytes, 2, first, std::min<size_t>(10, count - first));
    EXPECT_EQ(whole, pieces) << to_string(type);
  }
}

template <class T>
std::vector<T> reduced_in_order(ReduceOp op, DType type, const std::vector<std::vector<T>>& sources) {
  std::vector<const void*> from;
  for (const std::vector<T>& source : sources) from.push_back(source.data());
  std::vector<T> result(sources[0].size());
  void* to = result.data();
  reduce_in_order(
      {.sources = from, .destinations = {&to, 1}, .begin = 0, .end = result.size(), .type = type, .op = op});
  return result;
}

TEST(ReduceKernels, IntegersWrapAsUnsignedArithmetic) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(reduced_in_order<int32_t>(ReduceOp::sum, DType::i32, {{kMost, -5}, {1, -6}}),
            (std::vector<int32_t>{std::numeric_limits<int32_t>::min(), -11}));
  EXPECT_EQ(reduced_in_order<int32_t>(ReduceOp::prod, DType::i32, {{65536, -3}, {65536, 7}}),
            (std::vector<int32_t>{0, -21}));
  EXPECT_EQ(reduced_in_order<uint8_t>(ReduceOp::sum, DType::u8, {{200}, {100}}), (std::vector<uint8_t>{44}));
  EXPECT_EQ(reduced_in_order<uint32_t>(ReduceOp::max, DType::u32, {{~0u}, {1}}), (std::vector<uint32_t>{~0u}));
  EXPECT_EQ(reduced_in_order<int64_t>(ReduceOp::min, DType::i64, {{-1}, {1}}), (std::vector<int64_t>{-1}));
}

TEST(ReduceKernels, NanAndSignedZeroDoNotDependOnTheOrder) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum})
    for (const auto& sources : {std::vector<std::vector<double>>{{nan}, {1}}, {{1}, {nan}}})
      EXPECT_TRUE(std::isnan(reduced_in_order(op, DType::f64, sources)[0])) << to_string(op);
  for (const auto& sources : {std::vector<std::vector<double>>{{0.0}, {-0.0}}, {{-0.0}, {0.0}}}) {
    EXPECT_FALSE(std::signbit(reduced_in_order(ReduceOp::max, DType::f64, sources)[0]));
    EXPECT_TRUE(std::signbit(reduced_in_order(ReduceOp::min, DType::f64, sources)[0]));
  }
}

TEST(ReduceKernels, SharesCoverEveryElementOnce) {
  std::mt19937_64 random(42);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto count = static_cast<size_t>(random() % (trial % 2 == 0 ? 300 : 1'000'000));
    const int world = static_cast<int>(1 + random() % 16);
    size_t end = 0, largest = 0;
    for (int rank = 0; rank < world; ++rank) {
      const ElementRange share = share_of(count, rank, world);
      ASSERT_EQ(share.begin, end) << count << " elements of " << world;
      ASSERT_LE(share.begin, share.end);
      end = share.end;
      largest = std::max(largest, share.end - share.begin);
    }
    ASSERT_EQ(end, count);
    ASSERT_LE(largest, count / static_cast<size_t>(world) + 64 + 1) << "nobody has much more than its part";
  }
}

TEST(CollectiveNames, AreReadBackAndTheNearestIsNamed) {
  for (const CollectiveRow& row : collective_table()) {
    EXPECT_EQ(&find_collective(row.name), &row);
    EXPECT_EQ(&find_collective(row.peer_program), &row);
  }
  for (const DType type : kAllTypes) EXPECT_EQ(parse_dtype(to_string(type)), type);
  for (const ReduceOp op : kAllOps) EXPECT_EQ(parse_reduce_op(to_string(op)), op);
  const auto refused = [](const auto& call, const char* asked, const char* near) {
    const Error error = error_of(call);
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(error.line().find(asked), std::string::npos) << error.line();
    EXPECT_NE(error.remedy().find(near), std::string::npos) << error.line();
  };
  refused([] { static_cast<void>(find_collective("all_redice")); }, "'all_redice'", "all_reduce?");
  refused([] { static_cast<void>(parse_dtype("f23")); }, "'f23'", "f32?");
  refused([] { static_cast<void>(parse_reduce_op("summ")); }, "'summ'", "sum?");
  refused([] { static_cast<void>(parse_dtypes({"f32", ""})); }, "''", "bf16");
}

TEST(CollectiveNames, ListsAreUniqueAndInOrder) {
  EXPECT_EQ(find_collectives({"all"}).size(), collective_table().size());
  EXPECT_EQ(find_collectives({"sendrecv", "all_reduce_perf", "all_reduce"}).size(), 2u);
  EXPECT_EQ(parse_dtypes({"float", "f32", "half"}), (std::vector<DType>{DType::f32, DType::f16}));
  EXPECT_EQ(parse_reduce_ops({"all", "sum"}).size(), std::size(kAllOps));
}

TEST(CollectiveCall, MatchesOnlyTheSameCall) {
  const CollectiveCall call{CollectiveKind::all_reduce, 3, 100, DType::f32, ReduceOp::sum, -1};
  EXPECT_TRUE(matches(call, call));
  std::vector<CollectiveCall> others(5, call);
  others[0].kind = CollectiveKind::broadcast;
  others[1].seq = 4;
  others[2].count = 99;
  others[3].type = DType::i32;
  others[4].op = ReduceOp::max;
  for (const CollectiveCall& other : others) {
    EXPECT_FALSE(matches(call, other)) << other.describe();
    EXPECT_FALSE(matches(other, call)) << other.describe();
    const Error error = mismatch_error(0, call, 1, other);
    EXPECT_EQ(error.cause(), Cause::collective_mismatch);
    EXPECT_NE(std::string(error.what()).find(call.describe()), std::string::npos) << error.line();
    EXPECT_NE(std::string(error.what()).find(other.describe()), std::string::npos) << error.line();
  }
  EXPECT_EQ(call.describe(), "all_reduce #3 (100 x f32, 400 bytes, sum)");
  EXPECT_EQ(hung_error({2, 5}, call, 1.5).rank(), 2);
  EXPECT_EQ(hung_error({}, call, 1.5).rank(), -1);
}

TEST(CollectiveCall, ARootOutsideOfTheWorldIsRefused) {
  EXPECT_NO_THROW(check_rank(0, 1, "root"));
  EXPECT_NO_THROW(check_rank(7, 8, "root"));
  for (const int rank : {-1, 8, 1 << 30}) {
    const Error error = error_of([&] { check_rank(rank, 8, "root"); });
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(error.line().find(fmt::format("root {} is not a rank of a world of 8", rank)), std::string::npos);
  }
}

}  // namespace
}  // namespace amdahl
