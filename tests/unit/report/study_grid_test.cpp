// The cells of a study: what one device measures besides, and what happens to a mode that needs several.
#include "verbs/training/study_grid.h"

#include <gtest/gtest.h>

#include <set>

#include "setup/backends.h"

namespace amdahl {
namespace {

StudyConfig on_cpu(std::vector<int64_t> devices, const std::string& mode = "") {
  StudyConfig config;
  config.engine.backend = "cpu";
  config.devices = std::move(devices);
  config.mode = mode;
  return config;
}

TEST(StudyMode, ComparesByDefaultOnlyWhereThereAreSeveralDevices) {
  StudyConfig several = on_cpu({1, 2}), one = on_cpu({1});
  choose_mode(several);
  choose_mode(one);
  EXPECT_EQ(several.mode, "multi");
  EXPECT_EQ(one.mode, "single");
}

TEST(StudyMode, MultiByNameNeedsSeveralDevices) {
  StudyConfig config = on_cpu({1}, "multi");
  try {
    choose_mode(config);
    FAIL() << "one device was compared with itself";
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.cause()), 1);
    EXPECT_NE(error.line().find("this study has one CPU virtual device"), std::string::npos) << error.line();
    EXPECT_NE(error.remedy().find("`mode=single` or auto"), std::string::npos) << error.line();
    EXPECT_NE(error.remedy().find("`devices=1,2`"), std::string::npos) << error.line();
  }
  config.mode = "auto";
  EXPECT_NO_THROW(choose_mode(config));
  config.mode = "several";
  EXPECT_THROW(choose_mode(config), Error);
}

TEST(StudyVariants, OneDeviceAlsoMeasuresHalfOfEachBatch) {
  StudyConfig config = on_cpu({1}, "single");
  config.batch_sizes = {16, 32, 100, 1};
  config.runs = 50;
  const StudyGrid grid = plan_grid(config, find_model_preset("medium"));
  ASSERT_EQ(grid.groups.size(), 4u);
  EXPECT_EQ(extras_text(grid.groups), "8 eager fp32, 50 eager fp32") << "16 is in the list, and 1 has no half";
  EXPECT_EQ(grid.groups[0].front().every, 1);
  EXPECT_EQ(grid.groups[0].back().every, 5) << "10 of 50 runs";
  EXPECT_NE(grid.note.find("`variants=none`"), std::string::npos);
  config.rel_ci = 0.01;
  EXPECT_EQ(plan_grid(config, find_model_preset("medium")).groups[0].back().every, 1);
  config.training.plan.accumulate = 4;  // 3 rows cannot be divided into 4 micro-batches
  config.batch_sizes = {6};
  EXPECT_EQ(extras_text(plan_grid(config, find_model_preset("medium")).groups), "");
}

TEST(StudyVariants, AreLeftOutOnRequestAndWithSeveralDevices) {
  StudyConfig config = on_cpu({1}, "single");
  config.variants = "none";
  EXPECT_EQ(extras_text(plan_grid(config, find_model_preset("medium")).groups), "");
  config.variants = "all";
  EXPECT_THROW(plan_grid(config, find_model_preset("medium")), Error);
  EXPECT_EQ(extras_text(plan_grid(on_cpu({1, 2}, "multi"), find_model_preset("medium")).groups), "");
}

std::vector<std::string> methods(LaunchMode launch, MathMode math, const ComputeModes& modes) {
  StudyCellSpec cell;
  cell.launch = launch;
  cell.math = math;
  std::vector<std::string> names;
  for (const StudyCellSpec& method : other_methods(cell, modes))
    names.push_back(std::string(to_string(method.launch)) + " " + std::string(to_string(method.math)));
  return names;
}

TEST(StudyVariants, MathModesOfAGpuAreLaunchedAsAGraph) {
  const ComputeModes gpu{{LaunchMode::eager, LaunchMode::graph}, {MathMode::fp32, MathMode::tf32, MathMode::bf16}};
  using Names = std::vector<std::string>;
  EXPECT_EQ(methods(LaunchMode::eager, MathMode::fp32, gpu), (Names{"graph fp32", "graph tf32", "graph bf16"}));
  EXPECT_EQ(methods(LaunchMode::graph, MathMode::tf32, gpu), (Names{"eager tf32", "graph fp32", "graph bf16"}));
  EXPECT_EQ(methods(LaunchMode::eager, MathMode::fp32, {{LaunchMode::eager}, {MathMode::fp32}}), Names{});
}

TEST(StudyVariants, WhatDoesNotFitTogetherIsLeftOut) {
  StudyCellSpec cell, extra;
  cell.global_batch = extra.global_batch = 64;
  extra.extra = true;
  const auto bytes = [](const StudyCellSpec&) { return int64_t{30}; };
  std::vector<std::vector<StudyCellSpec>> groups{{cell, extra, extra}, {cell}};
  EXPECT_TRUE(drop_extras_that_do_not_fit(groups, 0, bytes).empty()) << "unknown memory";
  EXPECT_TRUE(drop_extras_that_do_not_fit(groups, 113, bytes).empty());
  EXPECT_EQ(drop_extras_that_do_not_fit(groups, 112, bytes), std::vector<int64_t>{64});
  EXPECT_EQ(groups[0].size(), 1u);
  EXPECT_TRUE(drop_extras_that_do_not_fit(groups, 1, bytes).empty()) << "nothing is left to leave out";
}

// Cells of other launch and math modes in one group: CPU operations stand in for those of another math mode.
TEST(StudyVariants, RunEverySoManyRunsWithTheirOwnMath) {
  EngineConfig engine;
  engine.backend = "cpu";
  const std::unique_ptr<Fleet> fleet = make_fleet(engine, 1, {});
  StudySettings settings;
  settings.model = find_model_preset("medium");
  settings.data_name = "synthetic";
  settings.trainer.model = settings.model;
  settings.trainer.plan.mesh.dp = 1;
  settings.runs = 3;
  settings.warmup = settings.steps = 1;
  settings.provenance.facts = {{"math", "fp32"}};
  std::vector<MathMode> made;
  settings.make_ops = [&](Device& device, MathMode math) {
    made.push_back(math);
    return make_cpu_ops(device, {});
  };
  StudyCellSpec cell;
  cell.global_batch = 4;
  cell.strategy = "single";
  StudyCellSpec extra = cell;
  extra.math = MathMode::tf32;
  extra.extra = true;
  extra.every = 2;
  settings.groups = {{cell, extra}};
  EXPECT_EQ(runs_of(settings, cell), 3);
  EXPECT_EQ(runs_of(settings, extra), 2);
  const Dataset data = make_study_dataset(16, settings.model.input_width, settings.model.output_width(), 1);
  std::vector<std::string> seen;
  Observer observer;
  const auto sink = [&](const Record& record) {
    const std::string math = std::get<std::string>(record.axes.at("math"));
    EXPECT_EQ(record.provenance.facts.at("math"), math);
    seen.push_back(std::to_string(std::get<int64_t>(record.axes.at("run"))) + " " + math);
  };
  run_study_cells(*fleet, data, settings, {}, sink, observer);
  EXPECT_EQ(seen, (std::vector<std::string>{"0 fp32", "0 tf32", "1 fp32", "2 tf32", "2 fp32"})) << "A B, A, B A";
  EXPECT_EQ(made, std::vector<MathMode>{MathMode::tf32}) << "once a cell";
  seen.clear();
  run_study_cells(*fleet, data, settings, {{run_key(extra, 0), 5.0}, {run_key(cell, 1), 5.0}}, sink, observer);
  EXPECT_EQ(seen, (std::vector<std::string>{"0 fp32", "2 tf32", "2 fp32"})) << "what a resumed study has already";
}

}  // namespace
}  // namespace amdahl
