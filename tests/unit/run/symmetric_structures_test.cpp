// Structures in symmetric memory under contention: recorded histories of four ranks are linearizable. The checker finds
// planted errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "errors.h"
#include "structure_models.h"
#include "symmetric/structures/distributed_tensor.h"
#include "symmetric/structures/gradient_buffer.h"
#include "symmetric/structures/hash_map.h"
#include "symmetric/structures/parameter_cache.h"
#include "symmetric/structures/priority_queue.h"
#include "symmetric/structures/ring_buffer.h"
#include "symmetric_team.h"
#include "waits.h"

namespace amdahl {
namespace {

using namespace test;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr int kScale = 20;
#else
constexpr int kScale = 1;
#endif

constexpr size_t kAt = Team4::kOffset;
constexpr int kRanks = 4, kPerRound = 6;

/// Runs an operation and fills in its result.
using Execute = std::function<void(RecordedOperation&)>;
/// A rank's access to the object under test.
using MakeExecute = std::function<Execute(CpuTeam&)>;
using MakeOperation = std::function<RecordedOperation(std::mt19937&)>;

/// Rounds of kPerRound random operations on each rank, all ranks between barriers; one history per round.
std::vector<std::vector<RecordedOperation>> histories_of(Team4& team, int rounds, const MakeOperation& make,
                                                         const MakeExecute& access) {
  std::vector<std::vector<RecordedOperation>> histories(static_cast<size_t>(rounds),
                                                        std::vector<RecordedOperation>(kRanks * kPerRound));
  std::atomic<uint64_t> clock{0};
  team.run([&](CpuTeam& own) {
    std::mt19937 random(static_cast<unsigned>(own.view.rank) + 3);
    const Execute execute = access(own);
    for (auto& history : histories) {
      ASSERT_TRUE(symmetric_cpu::barrier(own.view));
      for (int i = 0; i < kPerRound; ++i) {
        RecordedOperation operation = make(random);
        operation.invoked = clock.fetch_add(1);
        execute(operation);
        operation.returned = clock.fetch_add(1);
        history[static_cast<size_t>(own.view.rank * kPerRound + i)] = operation;
      }
    }
  });
  return histories;
}

RecordedOperation push_or_pop(std::mt19937& random) {
  RecordedOperation operation;
  operation.kind = random() % 2 ? kPush : kPop;
  operation.argument = random() % 1000;
  return operation;
}

template <class Queue>
Execute queue_execute(std::shared_ptr<Queue> queue) {
  return [queue](RecordedOperation& op) {
    op.succeeded = op.kind == kPush ? queue->try_push(op.argument) : queue->try_pop(op.result);
  };
}

TEST(Linearizability, TheCheckerAcceptsAndRefuses) {
  const auto at = [](int kind, uint64_t argument, bool succeeded, uint64_t result, uint64_t invoked,
                     uint64_t returned) {
    return RecordedOperation{kind, argument, 0, succeeded, result, invoked, returned};
  };
  const ObjectModel queue = queue_model(4);
  const auto accepts = [&](const std::vector<RecordedOperation>& history) {
    return first_violation({history}, queue) < 0;
  };
  EXPECT_TRUE(accepts({at(kPush, 1, true, 0, 0, 1), at(kPop, 0, true, 1, 2, 3)}));
  EXPECT_FALSE(accepts({at(kPush, 1, true, 0, 0, 1), at(kPop, 0, true, 2, 2, 3)}));   // another value
  EXPECT_FALSE(accepts({at(kPush, 1, true, 0, 0, 1), at(kPop, 0, false, 0, 2, 3)}));  // not empty
  EXPECT_TRUE(accepts({at(kPush, 1, true, 0, 0, 3), at(kPop, 0, false, 0, 1, 2)}));   // overlaps
  EXPECT_FALSE(accepts({at(kPush, 1, true, 0, 0, 1), at(kPush, 2, true, 0, 2, 3), at(kPop, 0, true, 2, 4, 5)}));
  EXPECT_TRUE(accepts({at(kPush, 1, true, 0, 0, 3), at(kPush, 2, true, 0, 1, 2), at(kPop, 0, true, 2, 4, 5)}));
  EXPECT_FALSE(accepts({at(kPush, 1, true, 0, 0, 1), at(kPop, 0, true, 1, 2, 5), at(kPop, 0, true, 1, 3, 4)}));
}

TEST(SymmetricStructures, TheRingBufferIsAQueue) {
  using Ring = SymmetricRing<uint64_t>;
  constexpr size_t kCapacity = 5;
  Team4 team(kRanks, Ring::bytes(kCapacity));
  const auto histories = histories_of(team, 17'000 / kScale, push_or_pop, [=](CpuTeam& own) {
    return queue_execute(std::make_shared<Ring>(own, kAt, kCapacity, 2));
  });
  EXPECT_EQ(first_violation(histories, queue_model(kCapacity)), -1);
}

/// A ring whose positions are taken by a load and a store.
class TornRing {
 public:
  TornRing(CpuTeam& team, size_t offset) : words_(object_of<uint64_t>(team, offset, 0)) {}
  bool try_push(uint64_t value) {
    const uint64_t at = load_word(words_[0]);
    if (at - load_word(words_[1]) >= 5) return false;
    std::this_thread::yield();
    store_word(words_[2 + at % 5], value);
    store_word(words_[0], at + 1);
    return true;
  }
  bool try_pop(uint64_t& value) {
    const uint64_t at = load_word(words_[1]);
    if (load_word(words_[0]) == at) return false;
    value = load_word(words_[2 + at % 5]);
    store_word(words_[1], at + 1);
    return true;
  }

 private:
  uint64_t* words_;
};

TEST(SymmetricStructures, APlantedRaceIsFound) {
  Team4 team(kRanks, 4096);
  const auto histories = histories_of(
      team, 500, push_or_pop, [=](CpuTeam& own) { return queue_execute(std::make_shared<TornRing>(own, kAt)); });
  EXPECT_GE(first_violation(histories, queue_model(5)), 0);
}

TEST(SymmetricStructures, TheMapIsAMap) {
  constexpr size_t kStripes = 2;
  Team4 team(kRanks, SymmetricMap::bytes(kStripes));
  const auto histories = histories_of(
      team, 12'500 / kScale,
      [](std::mt19937& random) {
        RecordedOperation operation;
        operation.kind = static_cast<int>(kInsert + random() % 3);
        operation.argument = random() % 6;  // few keys: contention
        operation.second_argument = random();
        return operation;
      },
      [=](CpuTeam& own) -> Execute {
        auto map = std::make_shared<SymmetricMap>(own, kAt, kStripes);
        return [map](RecordedOperation& op) {
          if (op.kind == kInsert) {
            op.succeeded = map->insert(op.argument, op.second_argument) == SymmetricMap::Inserted::fresh;
            return;
          }
          const std::optional<uint64_t> value = op.kind == kFind ? map->find(op.argument) : map->erase(op.argument);
          op.succeeded = value.has_value();
          op.result = value.value_or(0);
        };
      });
  EXPECT_EQ(first_violation(histories, map_model), -1);
}

TEST(SymmetricStructures, ThePriorityQueueGivesTheSmallest) {
  constexpr size_t kCapacity = 6;
  Team4 team(kRanks, SymmetricPriorityQueue::bytes(kCapacity));
  const auto histories = histories_of(team, 12'500 / kScale, push_or_pop, [=](CpuTeam& own) -> Execute {
    auto queue = std::make_shared<SymmetricPriorityQueue>(own, kAt, kCapacity, 1);
    return [queue](RecordedOperation& op) {
      if (op.kind == kPush) {
        op.succeeded = queue->try_push({op.argument, 7});
        return;
      }
      const std::optional<PrioritizedValue> first = queue->try_pop();
      op.succeeded = first.has_value();
      op.result = first ? first->priority : 0;
    };
  });
  EXPECT_EQ(first_violation(histories, priority_model(kCapacity)), -1);
}

/// Larger than a word: every element arrives once, in the order of its producer.
TEST(SymmetricStructures, TheRingBufferMovesLargeElements) {
  struct Element {
    uint64_t producer, number, copies[9];
  };
  using Ring = SymmetricRing<Element>;
  constexpr uint64_t kEach = 50'000 / kScale;
  Team4 team(kRanks, Ring::bytes(64));
  team.run([&](CpuTeam& own) {
    Ring ring(own, kAt, 64, 0);
    std::vector<uint64_t> last(kRanks);
    for (uint64_t i = 1; i <= kEach; ++i) {
      if (own.view.rank < 2) {  // ranks 0 and 1 produce, 2 and 3 consume
        Element element{static_cast<uint64_t>(own.view.rank), i, {}};
        std::fill(std::begin(element.copies), std::end(element.copies), i * 3);
        ring.push(element);
        continue;
      }
      const Element element = ring.pop();
      EXPECT_GT(element.number, last[element.producer]);
      last[element.producer] = element.number;
      for (const uint64_t copy : element.copies) ASSERT_EQ(copy, element.number * 3);
    }
  });
}

TEST(SymmetricStructures, TheMapHoldsManyKeysUntilAStripeIsFull) {
  constexpr size_t kStripes = 64;
  constexpr uint64_t kKeys = 2000;
  Team4 team(kRanks, SymmetricMap::bytes(kStripes));
  team.run([&](CpuTeam& own) {
    SymmetricMap map(own, kAt, kStripes);
    const auto rank = static_cast<uint64_t>(own.view.rank);
    for (uint64_t key = rank; key < kKeys; key += kRanks)
      EXPECT_EQ(map.insert(key, key * key), SymmetricMap::Inserted::fresh) << key;
    ASSERT_TRUE(symmetric_cpu::barrier(own.view));
    for (uint64_t key = 0; key < kKeys; ++key) EXPECT_EQ(map.find(key), std::optional(key * key));
    ASSERT_TRUE(symmetric_cpu::barrier(own.view));
    for (uint64_t key = rank; key < kKeys; key += 2 * kRanks) EXPECT_EQ(map.erase(key), std::optional(key * key));
    ASSERT_TRUE(symmetric_cpu::barrier(own.view));
    for (uint64_t key = rank; key < kKeys; key += kRanks) EXPECT_EQ(map.find(key).has_value(), key % 8 >= 4) << key;
    if (rank != 0) return;
    uint64_t key = kKeys;
    while (map.insert(key, 1) != SymmetricMap::Inserted::full) ++key;
    EXPECT_FALSE(map.find(key).has_value());
  });
}

/// Readers compare every word of an adapter while ranks replace it.
TEST(SymmetricStructures, ASwappedAdapterIsNeverSeenInPart) {
  constexpr size_t kEntries = 3, kWords = 999, kEntryBytes = kWords * sizeof(uint64_t) - 3;
  constexpr int kSwaps = 4000 / kScale;
  Team4 team(kRanks, ParameterCache::bytes(kEntries, kEntryBytes) + 4096);
  team.run([&](CpuTeam& own) {
    ParameterCache cache(own, kAt, kEntries, kEntryBytes);
    std::vector<uint64_t> data(kWords);
    std::vector<uint64_t> last(kEntries);
    for (int i = 0; i < kSwaps; ++i) {
      const auto entry = static_cast<size_t>(i) % kEntries;
      if (own.view.rank < 2) {  // two writers, three entries
        std::fill(data.begin(), data.end(), static_cast<uint64_t>(i * 2 + own.view.rank + 1));
        cache.swap(entry, data.data());
      }
      const uint64_t version = cache.read(entry, data.data());
      EXPECT_GE(version, last[entry]);
      last[entry] = version;
      if (version == 0) continue;
      for (size_t word = 0; word + 1 < kWords; ++word) ASSERT_EQ(data[word], data[0]) << "version " << version;
    }
    ASSERT_TRUE(symmetric_cpu::barrier(own.view));
    uint64_t swaps = 0;
    for (size_t entry = 0; entry < kEntries; ++entry) swaps += cache.version(entry);
    EXPECT_EQ(swaps, 2u * kSwaps);
  });
}

TEST(SymmetricStructures, GradientsAreCombinedWithBoundedStaleness) {
  constexpr size_t kFloats = 301;
  constexpr uint64_t kSteps = 500 / kScale, kStale = 3;
  Team4 team(kRanks, GradientBuffer::bytes(kRanks, kFloats));
  team.run([&](CpuTeam& own) {
    GradientBuffer buffer(own, kAt, kFloats, 0);
    std::vector<float> gradient(kFloats);
    std::mt19937 random(static_cast<unsigned>(own.view.rank));
    if (own.view.rank == 0) {
      for (uint64_t step = 1; step <= kSteps; ++step) {
        const uint64_t age = buffer.collect({1, 2, 3}, step, kStale, gradient.data());
        EXPECT_LE(age, kStale);
        for (const float value : gradient) ASSERT_EQ(value, gradient[0]);
      }
      return;
    }
    for (uint64_t step = 1; step <= kSteps; ++step) {
      std::fill(gradient.begin(), gradient.end(), static_cast<float>(step));
      buffer.publish(gradient.data(), step);
      if (random() % 8 == 0) std::this_thread::yield();
    }
  });
}

TEST(SymmetricStructures, ATensorIsGatheredAndScattered) {
  using Tensor = DistributedTensor<float>;
  const Tensor::Shape shape{103, 7, 5};
  Team4 team(3, Tensor::bytes(shape, 3));
  team.run([&](CpuTeam& own) {
    const Tensor tensor(own, kAt, shape);
    std::vector<size_t> mine, all;
    for (size_t row = 0; row < shape.rows; ++row) {
      all.push_back(row);
      if (row % 3 == static_cast<size_t>(own.view.rank)) mine.push_back(row);  // mostly of other ranks
      EXPECT_EQ(tensor.owner(row), static_cast<int>(row / 5 % 3));
    }
    std::vector<float> values;
    for (const size_t row : mine)
      for (size_t column = 0; column < shape.columns; ++column) values.push_back(static_cast<float>(row * 10 + column));
    tensor.scatter(mine, values.data());
    ASSERT_TRUE(symmetric_cpu::barrier(own.view));
    std::vector<float> got(shape.rows * shape.columns);
    tensor.gather(all, got.data());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], static_cast<float>(i / shape.columns * 10 + i % shape.columns));
    EXPECT_EQ(error_of([&] { tensor.row(103); }).cause(), Cause::usage);
  });
}

/// A rank that stops with a lock is named by the others at the deadline.
TEST(SymmetricStructures, ARankThatKeepsALockIsNamed) {
  Team4 team(2, SymmetricMap::bytes(1), 0.3);
  uint64_t& lock = *object_of<uint64_t>(*team.ranks[0], kAt, 0);
  lock = 2;  // rank 1 has it
  const Error error = error_of([&] {
    SymmetricPriorityQueue queue(*team.ranks[0], kAt, 4, 0);
    queue.try_push({1, 1});
  });
  EXPECT_EQ(error.cause(), Cause::rank_hung) << error.what();
  EXPECT_EQ(error.rank(), 1) << error.what();
}

}  // namespace
}  // namespace amdahl
