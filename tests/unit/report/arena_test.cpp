// The arena's table, its verdict and its environment file from made-up records; and how its processes are started.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "comm/world.h"
#include "ops/ops.h"
#include "report/fabric/arena.h"
#include "report/fabric/pages.h"
#include "report/page/text_page.h"
#include "spec/run_folder.h"
#include "verbs/fabric/transports.h"

namespace amdahl {
namespace {

Record timed(const std::string& transport, int64_t bytes, double time_us, const std::string& kind = "cuda") {
  Record record;
  record.kind = "collective";
  record.axes = {{"collective", std::string("all_reduce")},
                 {"dtype", std::string("f32")},
                 {"op", std::string("sum")},
                 {"devices", int64_t{2}},
                 {"bytes", bytes},
                 {"in_place", false},
                 {"transport", transport}};
  record.series = {{"time", "us", {time_us}}, {"busbw", "GB/s", {static_cast<double>(bytes) / time_us * 1e-3}}};
  record.provenance.device_kind = kind;
  return record;
}

const std::map<std::string, NcclSettings> kSettings{{"nccl", {}},
                                                    {"nccl ring ll", {{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "LL"}}},
                                                    {"nccl tree ll", {{"NCCL_ALGO", "Tree"}}}};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Arena, MarksTheFastestAndSaysWhatTheDefaultLoses) {
  std::vector<Record> records{timed("nccl", 1024, 12), timed("nccl ring ll", 1024, 10),
                              timed("nccl tree ll", 1024, 30)};
  records[0].axes["nccl_chose"] = std::string("TREE LL x2");
  records[2].status = {Status::Kind::failed, "5 elements are wrong"};
  const std::string text = text_page(arena_page(records));
  EXPECT_TRUE(has(text, "all_reduce, f32, sum over 2 GPUs, out of place\ncommon: Size (bytes): 1,024")) << text;
  EXPECT_TRUE(has(text, "\nnccl ring ll      10.00      0.1024  fastest\n")) << text;
  EXPECT_TRUE(has(text, "+20.0 %             TREE LL x2")) << text;
  EXPECT_TRUE(
      has(text, "FAILED all_reduce, f32, sum over 2 GPUs of 1 KiB, nccl tree ll, out of place: 5 elements are wrong"))
      << text;
  EXPECT_TRUE(has(text, "the default, nccl, takes 1.20x as long as the fastest")) << text;
  EXPECT_FALSE(has(text, "not GPUs")) << text;
}

TEST(Arena, HostMemoryAndGpusAreNeverOneTable) {
  const std::string text = text_page(
      arena_page({timed("nccl", 64, 12), timed("threads", 64, 1, "cpu-virtual"), timed("gloo", 64, 2, "cpu-virtual")}));
  EXPECT_TRUE(has(text, "over 2 GPUs, out of place\nSize")) << text;
  EXPECT_TRUE(has(text, "\nthreads ")) << text;
  EXPECT_TRUE(has(text, "sum over 2 GPUs, out of place")) << text;
  EXPECT_TRUE(has(text, "sum over 2 CPU virtual devices, out of place")) << text;
}

TEST(Arena, ATransportWithoutMeasurementIsARowWithItsReason) {
  Record absent;
  absent.kind = "transport";
  absent.axes = {{"transport", std::string("nccl symmetric")}};
  absent.status = {Status::Kind::failed, "error[rank-hung]: late"};
  const std::string text = text_page(arena_page({timed("nccl", 64, 12), absent}));
  EXPECT_TRUE(has(text, "FAILED nccl symmetric: error[rank-hung]: late")) << text;
}

TEST(Arena, TheEnvironmentFileHasWhatIsBestAtMostSizes) {
  const std::string text = arena_environment(
      {timed("nccl", 64, 12), timed("nccl ring ll", 64, 6), timed("nccl", 128, 12), timed("nccl ring ll", 128, 9),
       timed("nccl", 256, 12), timed("nccl ring ll", 256, 24), timed("nccl symmetric", 64, 1)},
      kSettings);
  EXPECT_TRUE(has(text, "\nexport NCCL_ALGO=Ring\nexport NCCL_PROTO=LL\n")) << text;
  EXPECT_TRUE(has(text, "at 2 of them; time saved: 25.0 % in the median, -100.0 % at the worst size")) << text;
  EXPECT_TRUE(has(text, "# nccl symmetric is the fastest at 1 of them")) << text;
}

TEST(Arena, TheEnvironmentFileSetsNothingWithoutAMajorityBeyondNoise) {
  for (const auto& records : {std::vector<Record>{timed("nccl", 64, 12), timed("nccl ring ll", 64, 11.9)},
                              std::vector<Record>{timed("nccl", 64, 12), timed("nccl ring ll", 64, 6),
                                                  timed("nccl", 128, 12), timed("nccl ring ll", 128, 13)},
                              std::vector<Record>{timed("nccl ring ll", 64, 6)},
                              std::vector<Record>{timed("threads", 64, 6, "cpu-virtual")}}) {
    const std::string text = arena_environment(records, kSettings);
    EXPECT_FALSE(has(text, "export")) << text;
    EXPECT_TRUE(has(text, "nothing to set")) << text;
  }
}

TEST(Arena, ValuesAreQuotedForTheShell) {
  const std::string text = arena_environment({timed("nccl", 64, 12), timed("nccl ring ll", 64, 6)},
                                             {{"nccl ring ll", {{"NCCL_ALGO", "^NVLS;x'y"}}}});
  EXPECT_TRUE(has(text, "export NCCL_ALGO='^NVLS;x'\\''y'\n")) << text;
}

TEST(Transports, EveryRowIsWholeAndItsSettingsAreValid) {
  std::set<std::string_view> names;
  for (const TransportRow& row : transport_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    ASSERT_NE(row.available, nullptr) << row.name;
    EXPECT_NO_THROW(check_nccl_settings(row.settings, row.name));
    EXPECT_TRUE(row.backend == "cuda" || (row.settings.empty() && row.registration == 0 && !row.graph)) << row.name;
  }
  EXPECT_EQ(find_transports({"all"}, "auto").size(), names.size());
  EXPECT_EQ(find_transports({"all"}, "cpu").size(), 8u);
  EXPECT_THROW(find_transports({"gluu"}, "auto"), Error);
}

std::vector<std::string> words_of(const CollectivesConfig& sweep) {
  return {"collectives", "--processes", sweep.processes, "--output-dir", sweep.output_dir};
}

TEST(Transports, ChildrenGetTheirOwnSettingsAndNoLaunchersVariables) {
  ArenaConfig config;
  config.program = "amdahl";
  config.arguments = words_of;
  config.sweep.environment = {{"PATH", "p"},           {"RANK", "7"},          {"OMPI_COMM_WORLD_RANK", "1"},
                              {"SLURM_PROCID", "2"},   {"NCCL_DEBUG", "INFO"}, {"NCCL_ALGO", "Tree"},
                              {"NCCL_IB_DISABLE", "1"}};
  const auto one = transport_commands(config, *find_transports({"nccl ring ll"}, "auto").front(), {4, "r"});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].environment,
            (std::map<std::string, std::string>{
                {"PATH", "p"}, {"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "LL"}, {"NCCL_IB_DISABLE", "1"}}));
  const auto asked = transport_commands(config, *find_transports({"nccl"}, "auto").front(), {4, ""});
  EXPECT_EQ(asked[0].environment.at("NCCL_DEBUG_SUBSYS"), "TUNING");
  const auto ranks = transport_commands(config, *find_transports({"gloo"}, "auto").front(), {3, "r"});
  ASSERT_EQ(ranks.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& variables = ranks[static_cast<size_t>(rank)].environment;
    EXPECT_EQ(variables.at("RANK"), std::to_string(rank));
    EXPECT_EQ(variables.at("WORLD_SIZE"), "3");
    EXPECT_EQ(variables.at("MASTER_PORT"), ranks[0].environment.at("MASTER_PORT"));
    EXPECT_FALSE(variables.contains("OMPI_COMM_WORLD_RANK") || variables.contains("SLURM_PROCID"));
  }
  config.program = "/somewhere/amdahl";
  const auto mpi = transport_commands(config, *find_transports({"mpi"}, "auto").front(), {3, "r"});
  ASSERT_EQ(mpi.size(), 1u);
  EXPECT_TRUE(mpi[0].program.ends_with("mpirun"));
  const std::string words = fmt::format("{}", fmt::join(mpi[0].arguments, " "));
  EXPECT_NE(words.find("-n 3 /somewhere/amdahl collectives"), std::string::npos) << words;
  EXPECT_NE(words.find("--processes mpi"), std::string::npos) << words;
}

/// A program in place of amdahl: a shell script.
class ArenaProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Availability& needed : {cpu_ops_availability(), gloo_availability()})  // of the transports below
      if (!needed.ok) GTEST_SKIP() << "the CPU transports are not in this build: " << needed.reason;
    folder = std::filesystem::path(::testing::TempDir()) / fmt::format("arena-{}", getpid());
    std::filesystem::create_directories(folder / "left");
    RunFolder::create(folder / "sample", {"collectives", {}}).append(timed("?", 64, 5, "cpu-virtual"));
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  ArenaOutcome run(const std::string& script, double seconds) {
    const std::string path = (folder / "program").string();
    std::ofstream(path) << "#!/bin/sh\nsave() { while [ \"$1\" != --output-dir ]; do shift; done; cp -r \"$SAMPLE\" "
                           "\"$2\"; }\n"
                        << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ArenaConfig config;
    config.program = path;
    config.arguments = words_of;
    config.transport_seconds = seconds;
    config.transports = {"threads", "gloo"};
    config.sweep.backend = "cpu";
    config.sweep.environment = {
        {"PATH", "/usr/bin:/bin"}, {"SAMPLE", (folder / "sample").string()}, {"TMPDIR", (folder / "left").string()}};
    Observer observer;
    return run_arena(config, observer);
  }

  std::filesystem::path folder;
};

TEST_F(ArenaProgram, ALateTransportLeavesTheOthersTheirRows) {
  const auto start = std::chrono::steady_clock::now();
  const ArenaOutcome outcome = run("test -n \"$RANK\" && exec sleep 60\nsave \"$@\"\n", 0.5);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(outcome.failed);  // one of them
  ASSERT_EQ(outcome.records.size(), 2u);
  EXPECT_EQ(std::get<std::string>(outcome.records[0].axes.at("transport")), "threads");
  EXPECT_EQ(outcome.records[0].value("time"), 5);
  EXPECT_EQ(outcome.records[1].kind, "transport");
  EXPECT_EQ(outcome.records[1].status.reason, "not done within 0.5 s");
}

TEST_F(ArenaProgram, SizesBeforeTheFailureOfATransportCount) {
  const ArenaOutcome outcome = run("save \"$@\"; kill -6 $$\n", 20);
  ASSERT_EQ(outcome.records.size(), 4u);
  for (const size_t i : {0u, 2u}) {
    EXPECT_EQ(outcome.records[i].value("time"), 5);
    EXPECT_EQ(outcome.records[i + 1].kind, "transport");
    EXPECT_EQ(outcome.records[i + 1].status.reason, "ended by signal 6");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "left")) << "the arena leaves files behind";
}

TEST_F(ArenaProgram, WhatAProgramSaysOfItsEndIsTheReason) {
  const ArenaOutcome outcome =
      run("test -n \"$RANK\" && kill -9 $$\necho 'error[rank-hung]: nobody came; try: again' >&2\nexit 6\n", 20);
  EXPECT_TRUE(outcome.failed);
  ASSERT_EQ(outcome.records.size(), 2u);
  EXPECT_EQ(outcome.records[0].status.reason, "error[rank-hung]: nobody came; try: again");
  EXPECT_EQ(outcome.records[1].status.reason, "ended by signal 9");
}

}  // namespace
}  // namespace amdahl
