// Values of NCCL's variables, named profiles, and what NCCL's own lines say of its choices.
#include <gtest/gtest.h>

#include "amdahl/machine.h"
#include "comm/nccl_settings.h"
#include "comm/nccl_tuning.h"

namespace amdahl {
namespace {

std::string refusal(const NcclSettings& settings) {
  try {
    check_nccl_settings(settings, "test");
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    return error.line();
  }
}

TEST(NcclSettings, SixteenThreadsAreRefusedWithTheReason) {
  const std::string line = refusal({{"NCCL_NTHREADS", "16"}});
  EXPECT_NE(line.find("NCCL_NTHREADS=16 (test): NCCL takes one of 64, 128, 256, 512"), std::string::npos) << line;
  for (const char* good : {"64", "128", "256", "512"}) EXPECT_EQ(refusal({{"NCCL_NTHREADS", good}}), "");
}

TEST(NcclSettings, TakesWhatNcclTakes) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"NCCL_ALGO", "Ring"},
                                                        {"NCCL_ALGO", "ring,TREE"},
                                                        {"NCCL_ALGO", "^NVLS,NVLSTree"},
                                                        {"NCCL_ALGO", "ring;allreduce:tree,nvls"},
                                                        {"NCCL_PROTO", "LL128"},
                                                        {"NCCL_PROTO", "^LL,LL128"},
                                                        {"NCCL_MIN_NCHANNELS", "1"},
                                                        {"NCCL_MAX_NCHANNELS", "64"},
                                                        {"NCCL_BUFFSIZE", "33554432"},
                                                        {"NCCL_P2P_LEVEL", "nvl"},
                                                        {"NCCL_NET_GDR_LEVEL", "0"},
                                                        {"NCCL_DEBUG", "INFO"},
                                                        {"NCCL_SOCKET_IFNAME", "=eth0"},
                                                        {"PATH", "anything"}})
    EXPECT_EQ(refusal({{name, value}}), "") << name << "=" << value;
}

TEST(NcclSettings, RefusesWhatNcclWouldIgnore) {
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"NCCL_ALGO", "Rign"},
                                                                                    {"NCCL_ALGO", ""},
                                                                                    {"NCCL_ALGO", "Ring,"},
                                                                                    {"NCCL_ALGO", "sum:ring"},
                                                                                    {"NCCL_PROTO", "LL256"},
                                                                                    {"NCCL_PROTO", "Simple Ring"},
                                                                                    {"NCCL_MIN_NCHANNELS", "0"},
                                                                                    {"NCCL_MAX_NCHANNELS", "65"},
                                                                                    {"NCCL_BUFFSIZE", "32M"},
                                                                                    {"NCCL_BUFFSIZE", "-1"},
                                                                                    {"NCCL_P2P_DISABLE", "yes"},
                                                                                    {"NCCL_NTHREADS", "64 128"},
                                                                                    {"NCCL_DEBUG", "LOUD"}})
    EXPECT_NE(refusal({{name, value}}).find(name + "=" + value), std::string::npos) << name << "=" << value;
}

TEST(NcclSettings, TheMinimumOfChannelsIsNotAboveTheMaximum) {
  EXPECT_EQ(refusal({{"NCCL_MIN_NCHANNELS", "8"}, {"NCCL_MAX_NCHANNELS", "8"}}), "");
  EXPECT_NE(refusal({{"NCCL_MIN_NCHANNELS", "16"}, {"NCCL_MAX_NCHANNELS", "8"}}).find("16 is above"),
            std::string::npos);
}

TEST(NcclSettings, EveryProfileIsValid) {
  ASSERT_FALSE(nccl_profiles().empty());
  for (const NcclProfile& profile : nccl_profiles()) {
    EXPECT_EQ(refusal(profile.settings), "") << profile.name;
    EXPECT_EQ(nccl_settings(std::string(profile.name), {}, {}), profile.settings);
    for (const auto& [name, value] : profile.settings) {
      std::string hint;
      EXPECT_TRUE(is_known_nccl_setting(name, hint)) << name << " has no rule";
    }
  }
  const NcclSettings host = nccl_settings("pcie-host", {}, {});
  EXPECT_EQ(host.size(), 8u);
  EXPECT_EQ(host.at("NCCL_BUFFSIZE"), "33554432");
  EXPECT_FALSE(host.contains("NCCL_NTHREADS"));
}

TEST(NcclSettings, AssignmentsGoBeforeTheProfileAndThatBeforeTheEnvironment) {
  const NcclSettings settings = nccl_settings("pcie-host", {"NCCL_ALGO=Ring"}, {{"NCCL_PROTO", "LL"}});
  EXPECT_EQ(settings.at("NCCL_ALGO"), "Ring");
  EXPECT_EQ(settings.at("NCCL_PROTO"), "Simple");
  EXPECT_TRUE(nccl_settings("", {}, {{"NCCL_PROTO", "LL"}, {"PATH", "x"}}).empty());
  EXPECT_THROW(nccl_settings("pcie", {}, {}), Error);
  EXPECT_THROW(nccl_settings("", {"NCCL_ALOG=Ring"}, {}), Error);
  EXPECT_THROW(nccl_settings("", {"NCCL_ALGO"}, {}), Error);
  EXPECT_THROW(nccl_settings("", {"PATH=x"}, {}), Error);
  EXPECT_THROW(nccl_settings("", {}, {{"NCCL_NTHREADS", "16"}}), Error);
  EXPECT_THROW(nccl_settings("", {"NCCL_MIN_NCHANNELS=16"}, {{"NCCL_MAX_NCHANNELS", "8"}}), Error);
}

TEST(NcclTuning, ReadsTheLinesOfEveryVersion) {
  const auto choices = parse_nccl_choices(
      "node1:77:91 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}\n"
      "node1:77:91 [0] NCCL INFO Broadcast:    65536 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}\r\n"
      "node1:77:91 [0] NCCL INFO AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads "
      "512 "
      "nWorks 1\n"
      "node0:309:309 [0] NCCL INFO AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008\n"
      "node0:309:309 [0] NCCL INFO 512 Bytes -> Algo 0 proto 0 time 12.5\n"
      "node0:309:309 [0] NCCL INFO Broadcast |     0.0/   0.0 |     0.0/   0.0 |\n"
      "Bytes -> nothing\n many Bytes -> Algo 1 proto 1");
  ASSERT_EQ(choices.size(), 5u);
  const auto expect = [&](size_t i, const char* collective, int64_t bytes, const char* method, int channels) {
    EXPECT_EQ(choices[i].collective, collective);
    EXPECT_EQ(choices[i].bytes, bytes);
    EXPECT_EQ(choices[i].method, method);
    EXPECT_EQ(choices[i].channels, channels);
  };
  expect(0, "allreduce", 1024, "TREE LL", 1);
  expect(1, "broadcast", 65536, "RING SIMPLE", 2);
  expect(2, "allreduce", 4096, "AllReduce_AGxLL_R", 8);
  expect(3, "allgather", 37756928, "RING SIMPLE", 0);
  expect(4, "", 512, "TREE LL", 0);
}

TEST(NcclTuning, TellsTheChoiceOfASize) {
  const std::vector<NcclChoice> choices{{"allreduce", 1024, "TREE LL", 2, false},
                                        {"allreduce", 1024, "TREE LL", 2, false},
                                        {"allreduce", 2048, "RING LL", 1, false},
                                        {"allreduce", 2048, "RING SIMPLE", 4, false},
                                        {"", 512, "TREE LL", 0, false},
                                        {"allgather", 256, "AllGather_LL", 3, true},
                                        {"allreduce", 256, "AllReduce_AGxLL_R", 0, true}};
  EXPECT_EQ(describe_nccl_choice(choices, {"all_reduce", 1024, 4}), "TREE LL x2");
  EXPECT_EQ(describe_nccl_choice(choices, {"all_reduce", 2048, 4}), "RING LL x1 / RING SIMPLE x4");
  EXPECT_EQ(describe_nccl_choice(choices, {"all_gather", 2048, 4}), "");
  EXPECT_EQ(describe_nccl_choice(choices, {"reduce_scatter", 512, 4}), "TREE LL");
  EXPECT_EQ(describe_nccl_choice(choices, {"all_gather", 1024, 4}), "AllGather_LL x3");
  EXPECT_EQ(describe_nccl_choice(choices, {"all_reduce", 256, 4}), "AllReduce_AGxLL_R");
}

}  // namespace
}  // namespace amdahl
