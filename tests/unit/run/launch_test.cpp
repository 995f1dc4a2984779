#include <gtest/gtest.h>

#include "comm/world.h"

namespace amdahl {
namespace {

using Environment = std::map<std::string, std::string>;

void expect_mismatch(const Environment& environment, const std::string& word) {
  try {
    detect_launch(environment);
    ADD_FAILURE() << "accepted; expected a refusal that names " << word;
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), Cause::launcher_mismatch);
    EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    EXPECT_FALSE(e.remedy().empty());
  }
}

TEST(Launch, NothingSetIsOnePlainProcess) {
  const LaunchContext launch = detect_launch({{"HOME", "/nonexistent"}});
  EXPECT_EQ(launch.family, "plain");
  EXPECT_EQ(launch.world_size, 1);
  EXPECT_FALSE(launch.multi_process());
}

TEST(Launch, ReadsEachFamily) {
  const std::vector<std::pair<std::string, Environment>> cases = {
      {"amdahl", {{"AMDAHL_RANK", "2"}, {"AMDAHL_WORLD_SIZE", "4"}}},
      {"torchrun", {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"MASTER_ADDR", "127.0.0.1"}}},
      {"openmpi", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}}},
      {"pmi", {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}},
      {"slurm", {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "2"}}},
  };
  for (const auto& [family, environment] : cases) {
    SCOPED_TRACE(family);
    const LaunchContext launch = detect_launch(environment);
    EXPECT_EQ(launch.family, family);
    EXPECT_EQ(launch.rank, 2);
    EXPECT_EQ(launch.world_size, 4);
    EXPECT_EQ(launch.local_rank, 2);
    EXPECT_EQ(launch.master_address, "127.0.0.1");
    EXPECT_GT(launch.master_port, 0);
  }
}

TEST(Launch, TheFirstFamilyWinsWhenAllAgree) {
  const LaunchContext launch = detect_launch({{"AMDAHL_RANK", "1"},
                                              {"AMDAHL_WORLD_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_RANK", "1"},
                                              {"OMPI_COMM_WORLD_SIZE", "2"},
                                              {"AMDAHL_MASTER_PORT", "4000"},
                                              {"MASTER_PORT", "5000"}});
  EXPECT_EQ(launch.family, "amdahl");
  EXPECT_EQ(launch.master_port, 4000);
}

TEST(Launch, RefusesFamiliesThatDisagree) {
  expect_mismatch({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
                  "OMPI_COMM_WORLD_RANK=1");
  expect_mismatch(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}},
      "SLURM_NTASKS=4");
  expect_mismatch({{"AMDAHL_RANK", "0"}, {"AMDAHL_WORLD_SIZE", "1"}, {"PMIX_RANK", "3"}}, "PMIX_RANK=3");
  expect_mismatch({{"AMDAHL_RANK", "0"}, {"AMDAHL_WORLD_SIZE", "1"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
                  "PMI_SIZE=2");
}

TEST(Launch, RefusesAHalfSetFamily) {
  expect_mismatch({{"OMPI_COMM_WORLD_SIZE", "4"}}, "OMPI_COMM_WORLD_RANK");
  expect_mismatch({{"AMDAHL_RANK", "0"}}, "AMDAHL_WORLD_SIZE");
  expect_mismatch({{"WORLD_SIZE", "2"}}, "RANK");
  expect_mismatch({{"PMIX_RANK", "0"}}, "PMIX_RANK=0");
}

TEST(Launch, AnAllocationsShellAndABatchScriptAreNoRanks) {
  const Environment shell{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}};
  EXPECT_FALSE(detect_launch(shell).multi_process());
  Environment script = shell;
  script["SLURM_PROCID"] = "0";
  EXPECT_FALSE(detect_launch(script).multi_process());
  Environment step = script;  // LaunchParameters=use_interactive_step
  step["SLURM_STEP_ID"] = "4294967290";
  EXPECT_FALSE(detect_launch(step).multi_process());
  step["SLURM_STEP_ID"] = "0";
  step["SLURM_NNODES"] = "1";
  EXPECT_EQ(detect_launch(step).world_size, 4);
}

TEST(Launch, RefusesValuesThatCannotBe) {
  expect_mismatch({{"RANK", "0"}, {"WORLD_SIZE", "2000000000"}}, "WORLD_SIZE=2000000000: at most 65536 ranks");
  expect_mismatch({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2");
  expect_mismatch({{"RANK", "two"}, {"WORLD_SIZE", "2"}}, "RANK=two");
  expect_mismatch({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}}, "99999");
  expect_mismatch({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}, "no address");
}

TEST(Launch, SlurmMayHostAnotherLauncher) {
  // torchrun as the one task of each of 2 nodes
  EXPECT_EQ(detect_launch({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "1"},
                           {"MASTER_ADDR", "node1"},
                           {"SLURM_JOB_ID", "7"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "1"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_NNODES", "2"}})
                .rank,
            5);
  // mpirun in a batch script
  EXPECT_EQ(detect_launch({{"OMPI_COMM_WORLD_RANK", "3"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"SLURM_JOB_ID", "7"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_NNODES", "1"}})
                .rank,
            3);
}

TEST(Launch, LeavesTorchrunItsOwnPort) {
  Environment environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29400"}};
  EXPECT_EQ(detect_launch(environment).master_port, 29400);
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(detect_launch(environment).master_port, 29401);
}

TEST(Launch, RangeOfPortsAndNameOfTheJob) {
  std::map<std::string, std::string> environment{{"AMDAHL_RANK", "1"}, {"AMDAHL_WORLD_SIZE", "2"}};
  const auto with_port = [&](const char* text) {
    environment["AMDAHL_MASTER_PORT"] = text;
    const LaunchContext launch = detect_launch(environment);
    return std::pair{launch.master_port, launch.last_port};
  };
  EXPECT_EQ(with_port("4000"), std::pair(4000, 4000));
  EXPECT_EQ(with_port("4000-4007"), std::pair(4000, 4007));
  EXPECT_EQ(with_port("65530-65535"), std::pair(65530, 65535));
  for (const char* bad : {"4000-", "-4000", "4007-4000", "4000-65536", "1-1000", "4000-x", "4000-4001-4002", "0-3"})
    EXPECT_THROW(with_port(bad), Error) << bad;
  with_port("4000");
  environment["SLURM_JOB_ID"] = "77";
  EXPECT_EQ(detect_launch(environment).job, "") << "started by hand, perhaps in two jobs of Slurm";
  environment["AMDAHL_JOB"] = "mine";
  EXPECT_EQ(detect_launch(environment).job, "mine");
  const std::map<std::string, std::string> slurm{{"SLURM_PROCID", "1"},
                                                 {"SLURM_NTASKS", "2"},
                                                 {"SLURM_JOB_ID", "77"},
                                                 {"SLURM_STEP_ID", "0"},
                                                 {"SLURM_NNODES", "1"}};
  EXPECT_EQ(detect_launch(slurm).job, "77");
}

}  // namespace
}  // namespace amdahl
