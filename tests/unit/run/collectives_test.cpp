// The collective table: shapes and bandwidth factors against nccl-tests', and every collective over every type and
// operation, out of place and in place, element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <vector>

#include "comm/collective_data.h"
#include "comm/world.h"
#include "device/device.h"
#include "measure/collectives/sweep.h"
#include "waits.h"

namespace amdahl {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

TEST(CollectiveTable, HasTheBandwidthFactorsOfNcclTests) {
  const auto factor = [](const char* name, int n) { return find_collective(name).bus_factor(n); };
  EXPECT_DOUBLE_EQ(factor("all_reduce", 4), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"})
    EXPECT_DOUBLE_EQ(factor(name, 4), 0.75) << name;
  for (const char* name : {"broadcast", "reduce", "sendrecv"}) EXPECT_DOUBLE_EQ(factor(name, 4), 1) << name;
  EXPECT_EQ(&find_collective("alltoall_perf"), &find_collective("all_to_all"));
  EXPECT_THROW(find_collective("all_reduse"), Error);
}

TEST(CollectiveTable, BuffersNeverExceedTheMessage) {
  for (const CollectiveRow& row : collective_table())
    for (const int n : {1, 2, 3, 5, 8})
      for (const size_t elements : {0u, 1u, 15u, 16u, 100u, 4096u}) {
        const CollectiveShape shape = row.shape(elements, n);
        EXPECT_LE(std::max(shape.send, shape.recv), elements) << row.name;
        if (elements >= 16u * static_cast<size_t>(n)) {
          EXPECT_GT(shape.call, 0u) << row.name;
        }
      }
}

/// One rank's buffers, in place or apart, filled and poisoned; runs the row and counts what is wrong.
size_t run_rank(const CollectiveRow& row, const CollectiveData& data, size_t elements, bool in_place, int root,
                Communicator& comm, Stream& stream) {
  const int rank = comm.rank(), n = comm.world_size();
  const CollectiveShape shape = row.shape(elements, n);
  const CollectiveWorld world{rank, n, root, shape.call};
  const size_t bytes = size_of(data.type);
  const int64_t offset = in_place ? row.in_place_offset(world) * static_cast<int64_t>(bytes) : 0;
  std::vector<char> a(std::max(shape.send, shape.recv) * bytes + 1, 0x5a), b(a.size(), 0x5a);
  char* recv = a.data() + std::max<int64_t>(-offset, 0);
  char* send = in_place ? a.data() + std::max<int64_t>(offset, 0) : b.data();
  data.fill(send, rank, 0, shape.send);
  row.run(comm, {send, recv, shape.call, data.type, data.op, root}, stream);
  stream.synchronize(soon());
  return row.receives(world) ? data.count_wrong(recv, row, world, 0, shape.recv) : 0;
}

TEST(CollectiveTable, EveryRowBringsEveryElement) {
  for (const int n : {2, 3, 4}) {
    auto devices = make_cpu_devices(n);
    auto comms = make_inproc_communicators(n, 20);
    std::vector<std::unique_ptr<Stream>> streams;
    for (auto& device : devices) streams.push_back(device->make_stream("comm"));
    for (const CollectiveRow& row : collective_table())
      for (const DType type : kTypes)
        for (const ReduceOp op : kOps)
          for (const bool in_place : {false, true}) {
            if ((op != ReduceOp::sum && !row.reduces) || (in_place && !row.in_place)) continue;
            const CollectiveData data{type, op, n, 7};
            std::vector<size_t> wrong(static_cast<size_t>(n), 99);
            run_rank_threads(
                n,
                [&](int rank) {
                  const auto r = static_cast<size_t>(rank);
                  wrong[r] = run_rank(row, data, 331, in_place, n - 1, *comms[r], *streams[r]);
                },
                [&](const Error& error) {
                  for (auto& comm : comms) comm->abort(error);
                });
            EXPECT_EQ(wrong, std::vector<size_t>(static_cast<size_t>(n), 0))
                << row.name << " " << to_string(type) << " " << to_string(op) << " in place " << in_place;
          }
  }
}

TEST(CollectiveData, EveryChangedElementIsFound) {
  const CollectiveRow& row = find_collective("all_reduce");
  constexpr size_t kCount = 257;
  for (const DType type : kTypes) {
    const CollectiveData data{type, ReduceOp::sum, 4, 3};
    const size_t bytes = size_of(type);
    const CollectiveWorld world{1, 4, 0, kCount};
    std::vector<char> right(kCount * bytes);
    auto devices = make_cpu_devices(4);
    auto comms = make_inproc_communicators(4, 20);
    run_rank_threads(
        4,
        [&](int rank) {
          const auto stream = devices[static_cast<size_t>(rank)]->make_stream("comm");
          std::vector<char> mine(kCount * bytes);
          data.fill(mine.data(), rank, 0, kCount);
          comms[static_cast<size_t>(rank)]->all_reduce(mine.data(), kCount, type, ReduceOp::sum, *stream);
          stream->synchronize(soon());
          if (rank == 1) right = mine;
        },
        [&](const Error& error) {
          for (auto& comm : comms) comm->abort(error);
        });
    ASSERT_EQ(data.count_wrong(right.data(), row, world, 0, kCount), 0u) << to_string(type);
    for (size_t bit = 0; bit < right.size() * 8; bit += 37) {
      right[bit / 8] = static_cast<char>(right[bit / 8] ^ (1 << bit % 8));
      size_t first = kCount;
      EXPECT_EQ(data.count_wrong(right.data(), row, world, 0, kCount, &first), 1u) << to_string(type) << " bit " << bit;
      EXPECT_EQ(first, bit / 8 / bytes);
      right[bit / 8] = static_cast<char>(right[bit / 8] ^ (1 << bit % 8));
    }
  }
}

/// What a rank must receive, element by element.
std::vector<char> expected_of(const CollectiveData& data, const CollectiveRow& row, const CollectiveWorld& world,
                              size_t count) {
  std::vector<char> all(count * size_of(data.type));
  for (size_t i = 0; i < count; ++i) {
    const ElementSource from = row.source_of(world, i);
    const auto value = static_cast<float>(from.source == ElementSource::kAll ? data.reduced(from.index)
                                                                             : data.value(from.source, from.index));
    std::memcpy(all.data() + i * sizeof(value), &value, sizeof(value));
  }
  return all;
}

// Elements are checked in blocks, by several threads, and those of large buffers in parts.
TEST(CollectiveData, ChangedElementsOfEveryRowAreFoundInPartsOfLargeBuffers) {
  constexpr size_t kElements = 700'000, kPart = 300'001;
  for (const CollectiveRow& row : collective_table()) {
    const CollectiveShape shape = row.shape(kElements, 3);
    const CollectiveWorld world{1, 3, 1, shape.call};
    const CollectiveData data{DType::f32, ReduceOp::sum, 3, 11};
    std::vector<char> received = expected_of(data, row, world, shape.recv);
    const auto wrong = [&](std::vector<size_t>& firsts) {
      size_t all = 0;
      for (size_t begin = 0; begin < shape.recv; begin += kPart) {
        size_t first = shape.recv;
        const size_t here = data.count_wrong(received.data() + begin * sizeof(float), row, world, begin,
                                             std::min(kPart, shape.recv - begin), &first);
        if (here > 0) firsts.push_back(first);
        all += here;
      }
      return all;
    };
    std::vector<size_t> firsts;
    ASSERT_EQ(wrong(firsts), 0u) << row.name;
    std::set<size_t> changed{0, 2047, 2048, shape.call - 1, kPart - 1, kPart, shape.recv - 1};
    std::erase_if(changed, [&](size_t i) { return i >= shape.recv; });
    for (const size_t i : changed) received[i * sizeof(float)] = static_cast<char>(~received[i * sizeof(float)]);
    EXPECT_EQ(wrong(firsts), changed.size()) << row.name;
    EXPECT_EQ(firsts.front(), 0u) << row.name;
    if (shape.recv > kPart) {
      EXPECT_EQ(firsts[1], kPart) << row.name;
    }
  }
}

TEST(CollectiveSweep, SizesByFactorAndByStep) {
  EXPECT_EQ(sweep_sizes(8, 64, 0, 2), (std::vector<int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(sweep_sizes(8, 63, 0, 4), (std::vector<int64_t>{8, 32}));
  EXPECT_EQ(sweep_sizes(100, 350, 100, 2), (std::vector<int64_t>{100, 200, 300}));
  EXPECT_EQ(sweep_sizes(5, 5, 0, 2), (std::vector<int64_t>{5}));
  EXPECT_EQ(sweep_sizes(int64_t{1} << 39, int64_t{1} << 40, 0, 1 << 20).size(), 1u);
}

}  // namespace
}  // namespace amdahl
