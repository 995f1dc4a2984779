// The bus bandwidth that no measurement can exceed: with reduction in the switches only where NCCL may let them.
#include "report/fabric/collective_limit.h"

#include <gtest/gtest.h>

#include "base/nvls.h"
#include "page_checks.h"
#include "report/fabric/drawings.h"
#include "report/fabric/pages.h"
#include "verbs/fabric/collectives_setup.h"

namespace amdahl {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(Nvls, IsRefusedByItsVariableAndByAlgorithmsWithoutIt) {
  const auto refusal = [](const Variables& variables) { return nvls_refusal(variables, "all_reduce", false); };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({{"NCCL_NVLS_ENABLE", "0"}}), "NCCL_NVLS_ENABLE=0");
  EXPECT_EQ(refusal({{"NCCL_ALGO", "Ring"}}), "NCCL_ALGO=Ring");
  for (const char* on : {"1", "2"}) EXPECT_EQ(refusal({{"NCCL_NVLS_ENABLE", on}}), "");
  for (const char* without : {"ring,TREE", "^NVLS,NVLSTree", "nvls;allreduce:tree", "ring;broadcast:nvls"})
    EXPECT_NE(refusal({{"NCCL_ALGO", without}}), "") << without;
  for (const char* with : {"Ring,NVLS", "nvlstree", "^Ring", "ring;allreduce:tree,nvls", "broadcast:ring"})
    EXPECT_EQ(refusal({{"NCCL_ALGO", with}}), "") << with;
  // Kernels for symmetric windows do not ask NCCL_ALGO.
  EXPECT_EQ(nvls_refusal({{"NCCL_ALGO", "Ring"}}, "all_reduce", true), "");
  EXPECT_EQ(nvls_refusal({{"NCCL_NVLS_ENABLE", "0"}}, "all_reduce", true), "NCCL_NVLS_ENABLE=0");
}

SweepSettings limited(const NvlinkFabric& fabric, const Variables& environment, const char* collective = "all_reduce") {
  SweepSettings sweep;
  sweep.row = find_collectives({collective}).front();
  sweep.devices = 4;
  set_limit(fabric, environment, sweep);
  return sweep;
}

TEST(CollectiveLimit, CountsTheSwitchesWhereNcclMayUseThem) {
  const NvlinkFabric fabric{450, true};
  EXPECT_EQ(limited(fabric, {}).peak_gbps, 675);
  EXPECT_EQ(limited(fabric, {}).link_gbps, 450);
  EXPECT_EQ(limited(fabric, {{"NCCL_NVLS_ENABLE", "0"}}).peak_gbps, 450);
  EXPECT_EQ(limited(fabric, {{"NCCL_ALGO", "Ring"}}).peak_gbps, 450);
  EXPECT_EQ(limited(fabric, {}, "all_gather").peak_gbps, 450);
  EXPECT_EQ(limited({450, false}, {}).peak_gbps, 450) << "switches that only forward";
  EXPECT_EQ(limited({}, {}).peak_gbps, 0);
}

Record reduced(double busbw, double peak, double link_limit) {
  Record record;
  record.kind = "collective";
  record.provenance = test::provenance_of("cuda", 4);
  record.axes = {{"collective", std::string("all_reduce")},
                 {"dtype", std::string("f32")},
                 {"devices", int64_t{4}},
                 {"bytes", int64_t{1} << 27},
                 {"in_place", false},
                 {"transport", std::string("nccl")},
                 {"launch", std::string("eager")}};
  record.series = {
      {"time", "us", {100}}, {"call_time", "us", {100, 101}}, {"busbw", "GB/s", {busbw}}, {"peak", "GB/s", {peak}}};
  if (link_limit > 0) record.series.push_back({"link_limit", "GB/s", {link_limit}});
  return record;
}

TEST(CollectiveLimit, ThePageNamesWhatItComparesWith) {
  const Page links = collectives_page({reduced(360, 450, 450)});
  EXPECT_NE(links.verdict.find("360 GB/s of bus bandwidth, 80 % of the physical limit, 450 GB/s"), std::string::npos)
      << links.verdict;
  const Page switches = collectives_page({reduced(540, 675, 450)});
  EXPECT_NE(switches.verdict.find("80 % of the physical limit with NVLS, 675 GB/s"), std::string::npos)
      << switches.verdict;
  EXPECT_NE(collectives_curves({reduced(540, 675, 450)}).find("physical limit with NVLS, 675 GB/s"), std::string::npos);
}

TEST(CollectiveLimit, OlderRecordsAreNotComparedWithSwitchesThatWereOff) {
  Record record = reduced(340, 675, 0);
  EXPECT_TRUE(collective_limit(record));
  record.provenance.facts["env.NCCL_NVLS_ENABLE"] = "0";
  EXPECT_FALSE(collective_limit(record));
  const Page page = collectives_page({record});
  EXPECT_EQ(page.verdict.find('%'), std::string::npos) << page.verdict;
  EXPECT_TRUE(test::has_note(page, "no limit for 1 measurement of all_reduce"));
  EXPECT_TRUE(test::has_note(page, "which was off: NCCL_NVLS_ENABLE=0"));
  EXPECT_EQ(collectives_curves({record}).find("physical limit"), std::string::npos);
  record.axes["devices"] = int64_t{2};  // 2 (n - 1) / n is 1
  EXPECT_TRUE(collective_limit(record));
}

}  // namespace
}  // namespace amdahl
