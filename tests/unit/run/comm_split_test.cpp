// Communicators over some of the ranks: who belongs together, in which order, and how they fail together.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/device_mesh.h"
#include "comm/world.h"
#include "device/cpu_device.h"
#include "waits.h"

namespace amdahl {
namespace {

/// Runs fn(communicator of the world, stream) on a thread per rank.
void on_ranks(int world, const std::function<void(Communicator&, Stream&)>& fn, double timeout = 20) {
  auto group = make_inproc_communicators(world, timeout);
  const auto devices = make_cpu_devices(world);
  run_rank_threads(
      world,
      [&](int rank) {
        const auto i = static_cast<size_t>(rank);
        const auto stream = devices[i]->make_stream("comm");
        fn(*group[i], *stream);
        stream->synchronize(soon());
      },
      [&](const Error& cause) {
        for (auto& each : group) each->abort(cause);
      });
}

/// The ranks of `world` that `part` has, in its order.
std::vector<int> ranks_in(Communicator& world, Communicator& part) {
  std::vector<int> ranks;
  for (const std::string& rank : part.exchange(std::to_string(world.rank()), soon())) ranks.push_back(std::stoi(rank));
  return ranks;
}

int64_t sum_over(Communicator& part, int64_t value, Stream& stream) {
  part.all_reduce(&value, 1, DType::i64, ReduceOp::sum, stream);
  stream.synchronize(soon());
  return value;
}

TEST(Split, RanksOfAColorFormAGroupInTheOrderOfTheirKeys) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const int world = std::uniform_int_distribution(1, 6)(random);
    std::vector<int> colors(static_cast<size_t>(world)), keys(colors.size());
    for (int& color : colors) color = std::uniform_int_distribution(-1, 2)(random);
    for (int& key : keys) key = std::uniform_int_distribution(-3, 3)(random);
    on_ranks(world, [&](Communicator& comm, Stream& stream) {
      const auto own = static_cast<size_t>(comm.rank());
      const auto part = comm.split(colors[own], keys[own], soon());
      if (colors[own] < 0) {
        EXPECT_EQ(part, nullptr);
        return;
      }
      std::vector<int> wanted;
      for (int rank = 0; rank < world; ++rank)
        if (colors[static_cast<size_t>(rank)] == colors[own]) wanted.push_back(rank);
      std::stable_sort(wanted.begin(), wanted.end(),
                       [&](int a, int b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
      EXPECT_EQ(ranks_in(comm, *part), wanted);
      EXPECT_EQ(wanted[static_cast<size_t>(part->rank())], comm.rank());
      EXPECT_EQ(part->world_size(), static_cast<int>(wanted.size()));
      EXPECT_EQ(sum_over(*part, 100 + comm.rank(), stream),
                std::accumulate(wanted.begin(), wanted.end(), 100 * static_cast<int64_t>(wanted.size())));
    });
  }
}

TEST(Split, PartsWorkBesideEachOtherAndCanBeSplitAgain) {
  on_ranks(8, [](Communicator& comm, Stream& stream) {
    const auto half = comm.split(comm.rank() / 4, 0, soon());
    const auto pair = half->split(half->rank() % 2, -half->rank(), soon());
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(sum_over(*pair, comm.rank(), stream), 2 * (comm.rank() / 4 * 4 + comm.rank() % 2) + 2);
      EXPECT_EQ(sum_over(*half, 1, stream), 4);
    }
    EXPECT_EQ(ranks_in(comm, *pair).front(), comm.rank() / 4 * 4 + 2 + comm.rank() % 2) << "the larger key is later";
    EXPECT_EQ(sum_over(comm, 1, stream), 8);
  });
}

TEST(Split, ALoneRankIsAGroup) {
  const auto device = std::move(make_cpu_devices(1).front());
  const auto stream = device->make_stream("comm");
  const auto alone = make_lone_communicator(*device);
  const auto part = alone->split(3, 0, soon());
  EXPECT_EQ(sum_over(*part, 5, *stream), 5);
  EXPECT_EQ(alone->split(-1, 0, soon()), nullptr);
}

TEST(Split, TheRankThatIsMissingIsNamedByItsRankInTheJob) {
  try {
    on_ranks(
        4,
        [](Communicator& comm, Stream& stream) {
          const auto part = comm.split(comm.rank() % 2, 0, soon());
          if (comm.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(600));
          sum_over(*part, 1, stream);
        },
        0.2);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::rank_hung);
    EXPECT_EQ(error.rank(), 3) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 3 did not reach all_reduce #1"), std::string::npos) << error.what();
  }
}

TEST(Split, DifferentCallsInAPartAreNamedByRanksOfTheJob) {
  try {
    on_ranks(4, [](Communicator& comm, Stream& stream) {
      const auto part = comm.split(comm.rank() / 2, 0, soon());
      std::vector<float> values(8);
      part->all_reduce(values.data(), comm.rank() == 3 ? 8 : 4, DType::f32, ReduceOp::sum, stream);
      stream.synchronize(soon());
    });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::collective_mismatch);
    EXPECT_NE(std::string(error.what()).find("rank 3 called"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 2 called"), std::string::npos) << error.what();
  }
}

TEST(Split, AnErrorEndsThePartsThatItDidNotHappenIn) {
  const auto start = std::chrono::steady_clock::now();
  try {
    on_ranks(4, [](Communicator& comm, Stream& stream) {
      const auto part = comm.split(comm.rank() / 2, 0, soon());
      if (comm.rank() == 0) throw Error(Cause::non_finite, "a NaN");
      if (comm.rank() == 3) return;  // rank 2 waits for it
      sum_over(*part, 1, stream);
    });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::non_finite);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "rank 2 waited for its deadline";
}

TEST(DeviceMesh, EveryRankHasItsPlaceAndItsNeighbours) {
  for (const Mesh& mesh : {Mesh{1, 1, 1}, Mesh{2, 2, 2}, Mesh{3, 2, 1}, Mesh{1, 4, 2}, Mesh{2, 1, 3}}) {
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      const MeshPlace place = place_of(mesh, rank);
      EXPECT_EQ(rank_of(mesh, place), rank);
      EXPECT_TRUE(place.dp < mesh.dp && place.tp < mesh.tp && place.pp < mesh.pp);
      seen.insert({place.dp, place.tp, place.pp});
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(mesh.size()));
    on_ranks(mesh.size(), [&](Communicator& comm, Stream& stream) {
      DeviceMesh own(comm, mesh, soon());
      EXPECT_EQ(own.place(), place_of(mesh, comm.rank()));
      const auto check = [&](Communicator& along, int MeshPlace::*axis, int size) {
        EXPECT_EQ(along.rank(), own.place().*axis);
        EXPECT_EQ(along.world_size(), size);
        MeshPlace each = own.place();
        std::vector<int> wanted;
        for (each.*axis = 0; each.*axis < size; ++(each.*axis)) wanted.push_back(rank_of(mesh, each));
        EXPECT_EQ(ranks_in(comm, along), wanted);
      };
      check(own.dp(), &MeshPlace::dp, mesh.dp);
      check(own.tp(), &MeshPlace::tp, mesh.tp);
      check(own.pp(), &MeshPlace::pp, mesh.pp);
      // Sums along all three axes, one after the other, are the sum over all ranks.
      const int64_t all =
          sum_over(own.pp(), sum_over(own.dp(), sum_over(own.tp(), comm.rank(), stream), stream), stream);
      EXPECT_EQ(all, static_cast<int64_t>(mesh.size()) * (mesh.size() - 1) / 2);
    });
  }
}

TEST(DeviceMesh, RefusesAnotherNumberOfDevices) {
  on_ranks(4, [](Communicator& comm, Stream&) {
    for (const Mesh& mesh : {Mesh{2, 1, 1}, Mesh{2, 2, 2}, Mesh{-2, -2, 1}, Mesh{0, 1, 1}})
      EXPECT_THROW(DeviceMesh(comm, mesh, soon()), Error);
  });
}

}  // namespace
}  // namespace amdahl
