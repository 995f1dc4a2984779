// What ranks say to each other as text: frames, packed lists, errors, lists of ranks, groups of a split, and the
// variables of NCCL that refuse NVLS.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/nvls.h"
#include "comm/device_mesh.h"
#include "comm/rank_group.h"
#include "comm/rank_list.h"
#include "comm/wire.h"
#include "errors.h"

namespace amdahl {
namespace {

std::string any_bytes(std::mt19937& random, size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

wire::Frame any_frame(std::mt19937& random) {
  return {static_cast<wire::FrameType>(random() % 11),
          uint64_t{random()} << 32 | random(),
          static_cast<int32_t>(random()),
          static_cast<int32_t>(random()),
          any_bytes(random, 40),
          any_bytes(random, 300)};
}

TEST(WireProperties, FramesComeInAnyPieces) {
  std::mt19937 random(121);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<wire::Frame> frames(1 + random() % 8);
    std::string bytes;
    for (wire::Frame& frame : frames) bytes += wire::encode(frame = any_frame(random));
    wire::FrameReader reader;
    size_t got = 0;
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = std::min<size_t>(1 + random() % 90, bytes.size() - at);
      reader.append(bytes.data() + at, piece);
      at += piece;
      while (const auto frame = reader.next()) {
        ASSERT_LT(got, frames.size());
        EXPECT_EQ(frame->type, frames[got].type);
        EXPECT_EQ(frame->id, frames[got].id);
        EXPECT_EQ(frame->a, frames[got].a);
        EXPECT_EQ(frame->b, frames[got].b);
        EXPECT_EQ(frame->key, frames[got].key);
        EXPECT_EQ(frame->value, frames[got].value);
        ++got;
      }
    }
    EXPECT_EQ(got, frames.size());
    EXPECT_FALSE(reader.next());
  }
}

TEST(WireProperties, BytesOfOtherProgramsAreRefusedBeforeTheyTakeMemory) {
  std::mt19937 random(122);
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\nHost: localhost:29500\r\nAccept: */*\r\n\r\n"),
        std::string("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n----------"), std::string(64, '\0')}) {
    wire::FrameReader reader;
    reader.append(text.data(), text.size());
    EXPECT_EQ(error_of([&] { static_cast<void>(reader.next()); }).cause(), Cause::data_corrupt) << text;
  }
  const std::string good = wire::encode(any_frame(random));
  for (const size_t at : {size_t{32}, size_t{36}}) {  // the lengths of key and value
    std::string bent = good;
    bent[at + 3] = '\x7f';  // 2 GB
    wire::FrameReader reader;
    reader.append(bent.data(), bent.size());
    EXPECT_EQ(error_of([&] { static_cast<void>(reader.next()); }).cause(), Cause::data_corrupt);
  }
}

TEST(WireProperties, PackedListsComeBack) {
  std::mt19937 random(123);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::string> parts(random() % 7);
    for (std::string& part : parts) part = any_bytes(random, 50);
    const std::string packed = wire::pack(parts);
    EXPECT_EQ(wire::unpack(packed), parts);
    for (size_t cut = 0; cut < packed.size(); cut += 1 + random() % 9) {  // a cut list is no crash
      const auto some = wire::unpack(std::string_view(packed).substr(0, cut));
      EXPECT_LE(some.size(), parts.size());
    }
  }
}

TEST(WireProperties, ErrorsComeBackWithCauseRemedyAndRank) {
  std::mt19937 random(124);
  for (int cause = 0; cause <= static_cast<int>(Cause::internal); ++cause) {
    const Error sent(static_cast<Cause>(cause), any_bytes(random, 80), "remedy; " + any_bytes(random, 80),
                     static_cast<int>(random() % 100) - 1);
    const Error got = wire::decode_error(wire::encode_error(sent));
    EXPECT_EQ(got.cause(), sent.cause());
    EXPECT_EQ(std::string(got.what()), std::string(sent.what()));
    EXPECT_EQ(got.remedy(), sent.remedy());
    EXPECT_EQ(got.rank(), sent.rank());
    EXPECT_EQ(got.line(), sent.line());
  }
  EXPECT_EQ(wire::decode_error("").cause(), Cause::internal);
  EXPECT_EQ(wire::decode_error(any_bytes(random, 9)).cause(), Cause::internal);
}

TEST(RankList, NamesEightAndCountsTheRest) {
  EXPECT_EQ(rank_list({3}), "rank 3");
  EXPECT_EQ(rank_list({1, 2}), "ranks 1, 2");
  for (int n = 2; n < 30; ++n) {
    std::vector<int> ranks(static_cast<size_t>(n));
    std::iota(ranks.begin(), ranks.end(), 5);
    const std::string text = rank_list(ranks);
    const auto commas = std::count(text.begin(), text.end(), ',');
    EXPECT_EQ(commas + 1, std::min(n, 8)) << text;
    EXPECT_EQ(text.ends_with(fmt::format("and {} more", n - 8)), n > 8) << text;
  }
}

TEST(RankGroupProperties, ASplitIsAPartitionInTheOrderOfKeys) {
  std::mt19937 random(125);
  for (int trial = 0; trial < 300; ++trial) {
    const int world = 1 + static_cast<int>(random() % 12);
    std::vector<int> color(static_cast<size_t>(world)), key(color.size());
    std::vector<std::string> said;
    for (size_t rank = 0; rank < color.size(); ++rank) {
      color[rank] = static_cast<int>(random() % 4) - 1;
      key[rank] = static_cast<int>(random() % 5) - 2;
      said.push_back(split_message(color[rank], key[rank]));
    }
    for (int rank = 0; rank < world; ++rank) {
      const auto r = static_cast<size_t>(rank);
      const RankGroup group = group_of_split(said, rank);
      if (color[r] < 0) {
        EXPECT_EQ(group.size(), 0);
        continue;
      }
      EXPECT_EQ(group.own_job_rank(), rank);
      EXPECT_EQ(group.size(), std::count(color.begin(), color.end(), color[r]));
      for (int i = 0; i < group.size(); ++i) {
        const auto member = static_cast<size_t>(group.job_rank(i));
        EXPECT_EQ(color[member], color[r]);
        if (i == 0) continue;
        const auto before = static_cast<size_t>(group.job_rank(i - 1));
        EXPECT_TRUE(std::pair(key[before], before) < std::pair(key[member], member));
      }
      // The parts of a part are ranks of the job.
      const RankGroup again =
          group_of_split(std::vector<std::string>(static_cast<size_t>(group.size()), "0 0"), group.rank).within(group);
      EXPECT_EQ(again.members, group.members);
      EXPECT_EQ(again.own_job_rank(), rank);
    }
  }
  EXPECT_TRUE(RankGroup::first(4, 1).is_first());
  EXPECT_FALSE((RankGroup{{1, 0}, 0}.is_first()));
  EXPECT_EQ(RankGroup::first(-3, 0).size(), 0);
}

TEST(DeviceMeshProperties, EveryPlaceIsOneRankAndTensorRanksAreNeighbours) {
  for (int dp = 1; dp <= 4; ++dp)
    for (int tp = 1; tp <= 4; ++tp)
      for (int pp = 1; pp <= 4; ++pp) {
        const Mesh mesh{.dp = dp, .tp = tp, .pp = pp};
        std::vector<MeshPlace> places;
        for (int rank = 0; rank < mesh.size(); ++rank) {
          const MeshPlace place = place_of(mesh, rank);
          EXPECT_EQ(rank_of(mesh, place), rank);
          EXPECT_TRUE(place.dp >= 0 && place.dp < dp && place.tp >= 0 && place.tp < tp && place.pp >= 0 &&
                      place.pp < pp);
          places.push_back(place);
          if (place.tp + 1 < tp) {
            EXPECT_EQ(rank_of(mesh, {place.dp, place.tp + 1, place.pp}), rank + 1);
          }
        }
        std::sort(places.begin(), places.end());
        EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end());
      }
}

// NCCL_ALGO as documented: names for all collectives, or "collective:names;collective:names", ^ excludes.
TEST(Nvls, RefusalNamesTheVariable) {
  const auto refusal = [](const char* enable, const char* algo, const char* collective, bool windows = false) {
    std::map<std::string, std::string> variables;
    if (enable) variables["NCCL_NVLS_ENABLE"] = enable;
    if (algo) variables["NCCL_ALGO"] = algo;
    return nvls_refusal(variables, collective, windows);
  };
  EXPECT_EQ(refusal(nullptr, nullptr, "all_reduce"), "");
  EXPECT_EQ(refusal("1", nullptr, "all_reduce"), "");
  EXPECT_EQ(refusal("0", "nvls", "all_reduce"), "NCCL_NVLS_ENABLE=0");
  EXPECT_EQ(refusal("0", nullptr, "all_reduce", true), "NCCL_NVLS_ENABLE=0");
  EXPECT_EQ(refusal(nullptr, "ring", "all_reduce"), "NCCL_ALGO=ring");
  EXPECT_EQ(refusal(nullptr, "ring", "all_reduce", true), "") << "windows have kernels of their own";
  EXPECT_EQ(refusal(nullptr, "Ring,NVLSTree", "all_reduce"), "");
  EXPECT_EQ(refusal(nullptr, "^NVLS", "all_reduce"), "") << "the tree remains";
  EXPECT_EQ(refusal(nullptr, "^NVLS,NVLSTree", "all_reduce"), "NCCL_ALGO=^NVLS,NVLSTree");
  EXPECT_EQ(refusal(nullptr, "allreduce:ring;allgather:nvls", "all_reduce"), "NCCL_ALGO=allreduce:ring;allgather:nvls");
  EXPECT_EQ(refusal(nullptr, "allreduce:ring;allgather:nvls", "all_gather"), "");
  EXPECT_EQ(refusal(nullptr, "ring;AllReduce:nvls", "all_reduce"), "") << "the collective's own list counts";
  EXPECT_EQ(refusal(nullptr, "ring;AllReduce:nvls", "broadcast"), "NCCL_ALGO=ring;AllReduce:nvls");
  EXPECT_EQ(refusal(nullptr, "allgather:ring", "all_reduce"), "") << "nothing is said of this one";
}

}  // namespace
}  // namespace amdahl
