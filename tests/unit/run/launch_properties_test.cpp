// Environments of launchers at random: a rank that makes sense, or an error that names a variable.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "comm/world.h"
#include "errors.h"

namespace amdahl {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr const char* kNames[] = {"AMDAHL_RANK",
                                  "AMDAHL_WORLD_SIZE",
                                  "AMDAHL_LOCAL_RANK",
                                  "AMDAHL_LOCAL_WORLD_SIZE",
                                  "AMDAHL_MASTER_ADDR",
                                  "AMDAHL_MASTER_PORT",
                                  "RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "PMIX_RANK",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_NNODES",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID"};
constexpr const char* kValues[] = {"0",
                                   "0",
                                   "1",
                                   "1",
                                   "2",
                                   "2",
                                   "3",
                                   "4",
                                   "4",
                                   "",
                                   "-1",
                                   "1x",
                                   "2147483647",
                                   "True",
                                   "4294967290",
                                   "65535",
                                   "99999999999999999999",
                                   "node7"};

TEST(LaunchProperties, AnyEnvironmentIsARankOrAnErrorWithARemedy) {
  std::mt19937 random(141);
  int ranks = 0, refused = 0;
  for (int trial = 0; trial < 15'000; ++trial) {
    Environment environment;
    for (uint32_t left = random() % 8; left > 0; --left)
      environment[kNames[random() % std::size(kNames)]] = kValues[random() % std::size(kValues)];
    if (trial % 2 == 0) environment["RANK"] = kValues[random() % 6], environment["WORLD_SIZE"] = kValues[random() % 9];
    try {
      const LaunchContext launch = detect_launch(environment);
      ASSERT_GE(launch.rank, 0);
      ASSERT_LT(launch.rank, launch.world_size);
      ASSERT_GE(launch.local_rank, 0);
      ASSERT_LT(launch.local_rank, launch.local_world_size);
      if (!launch.multi_process()) continue;
      ++ranks;
      ASSERT_FALSE(launch.master_address.empty());
      ASSERT_TRUE(launch.master_port >= 1 && launch.master_port <= 65535) << launch.master_port;
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.cause(), Cause::launcher_mismatch) << error.line();
      ASSERT_FALSE(error.remedy().empty());
    }
  }
  EXPECT_GT(ranks, 300);
  EXPECT_GT(refused, 300);
}

TEST(LaunchProperties, AHostWithoutRanksIsRefused) {
  for (const auto& [rank, size, local] : {std::tuple("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
                                          {"AMDAHL_RANK", "AMDAHL_WORLD_SIZE", "AMDAHL_LOCAL_WORLD_SIZE"},
                                          {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}}) {
    const Error error = error_of([&, r = rank, s = size, l = local] {
      static_cast<void>(detect_launch({{r, "0"}, {s, "2"}, {l, "0"}}));
    });
    EXPECT_EQ(error.cause(), Cause::launcher_mismatch);
    EXPECT_NE(error.line().find(fmt::format("{}=0", local)), std::string::npos) << error.line();
  }
}

TEST(LaunchProperties, ThePortBesideTheAgentsIsAPortToo) {
  const auto port = [](const char* number) {
    return detect_launch(
               {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", number}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
        .master_port;
  };
  EXPECT_EQ(port("65534"), 65535);
  for (const char* number : {"65535", "2147483647", "0"}) {
    const Error error = error_of([&] { static_cast<void>(port(number)); });
    EXPECT_EQ(error.cause(), Cause::launcher_mismatch) << number;
    EXPECT_NE(error.line().find("not between 1 and 65535"), std::string::npos) << error.line();
  }
}

TEST(LaunchProperties, RanksOfOneJobHaveOnePort) {
  for (const char* job : {"1234", "prte-node7-55@1", "x"}) {
    int port = 0;
    for (const char* rank : {"0", "1", "2"}) {
      const LaunchContext launch =
          detect_launch({{"OMPI_COMM_WORLD_RANK", rank}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"PMIX_NAMESPACE", job}});
      if (port == 0) port = launch.master_port;
      EXPECT_EQ(launch.master_port, port);
      EXPECT_GE(port, 20000);
      EXPECT_LT(port, 32768) << "below the ports that the system gives away";
    }
  }
}

}  // namespace
}  // namespace amdahl
