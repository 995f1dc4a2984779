// Modelled memory against the bytes that a device counts, and the refusal of what does not fit.
#include "train/device_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "measure/study/cell_memory.h"
#include "ops/cpu_scratch.h"
#include "parallel/plan_memory.h"
#include "plan/math_mode.h"
#include "plan/plan_rules.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

/// A preset with few layers and small widths, in the shapes of the original.
ModelSpec narrow(const ModelSpec& preset) {
  ModelSpec model = preset;
  const auto smaller = [](int64_t width) { return std::max<int64_t>(width / 12 / 8 * 8, 8); };
  if (model.vocabulary() > 0) model.input_shape = {24}, model.input_width = 24;
  if (model.input_shape.size() == 2) model.input_shape[0] = 24, model.input_width = 24 * model.input_shape[1];
  if (model.layers.size() > 10) model.layers.erase(model.layers.begin() + 4, model.layers.end() - 3);
  if (model.input_shape.size() == 3 && model.input_shape[0] > 48)
    model.input_shape = {48, 48, 3}, model.input_width = 48 * 48 * 3;
  for (LayerSpec& layer : model.layers) {
    if (layer.bottleneck > 0) layer.bottleneck = smaller(layer.bottleneck);
    if (&layer != &model.layers.back()) layer.units = smaller(layer.units);
    if (layer.heads > 0) layer.heads = 2, layer.units = 64;
    layer.kv_heads = std::min<int64_t>(layer.kv_heads, 1);
    layer.head_dim = std::min<int64_t>(layer.head_dim, 48);
    layer.hidden = std::min<int64_t>(layer.hidden, 176);
    if (layer.kind == LayerKind::embedding || layer.kind == LayerKind::projection) layer.units = 64;
    if (layer.vocabulary > 0) layer.vocabulary = 300;
    if (layer.kind == LayerKind::layer_norm || layer.kind == LayerKind::pool || layer.kind == LayerKind::average_pool ||
        layer.kind == LayerKind::max_pool || layer.kind == LayerKind::token_head)
      layer.units = 0;
  }
  return model;
}

TrainerOptions options_for(const ModelSpec& model, Recompute recompute, const std::string& optimizer) {
  TrainerOptions options;
  options.model = model;
  options.plan.global_batch = 16;
  options.plan.recompute = static_cast<int64_t>(recompute);
  options.hyper.optimizer = optimizer;
  return options;
}

/// The limit leaves room for alignment, counters and oneDNN's formats of filters.
TEST(DeviceMemory, IsWithinThreePercentOfTheBytesCounted) {
  for (const ModelSpec& preset : model_presets())
    for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::selective})
      for (const char* optimizer : {"adam", "sgd"}) {
        const ModelSpec model = narrow(preset);
        model.validate();
        const TrainerOptions options = options_for(model, recompute, optimizer);
        JobDevices job = cpu_job_devices(1);
        const RankContext rank{0, 1, *job.devices[0], *job.ops[0], *job.communicators[0]};
        Trainer trainer(rank, options);
        const JobData data = random_data(model, options.plan.global_batch, 1);
        trainer.step(data.features.data(), data.targets.data());
        trainer.synchronize();
        const auto counted = static_cast<double>(job.devices[0]->peak_allocated_bytes());
        const MemoryParts parts = trainer_memory(options, BackendKind::cpu, MathMode::fp32);
        const auto layers = static_cast<double>(parts.activations + parts.workspace);
        const double others = static_cast<double>(parts.total()) - layers;
        EXPECT_NEAR(layers / (counted - others), 1, 0.03)
            << preset.name << ", recompute " << static_cast<int>(recompute);
        EXPECT_NEAR(static_cast<double>(parts.total()) / counted, 1, 0.03)
            << preset.name << ", recompute " << static_cast<int>(recompute) << ", " << optimizer << ": "
            << memory_text(parts) << " and counted " << counted;
      }
}

/// Peaks that studies counted on an H100 (results/h100/models).
TEST(DeviceMemory, RecurrentLayersOnAGpuTakeWhatWasCounted) {
  struct Counted {
    const char* model;
    MathMode math;
    double bytes;
  };
  for (const Counted& counted : {Counted{"lstm", MathMode::tf32, 1187.5e6}, Counted{"lstm", MathMode::bf16, 961.0e6},
                                 Counted{"gru", MathMode::tf32, 1085.6e6}, Counted{"gru", MathMode::bf16, 859.1e6}}) {
    StudySettings settings;
    settings.model = settings.trainer.model = find_model_preset(counted.model);
    StudyCellSpec cell;
    cell.global_batch = 1024;
    cell.strategy = "single";
    cell.math = counted.math;
    const auto modelled = static_cast<double>(cell_memory(settings, cell, BackendKind::cuda, 4096).total());
    EXPECT_NEAR(modelled / counted.bytes, 1, 0.03) << counted.model;
  }
}

struct PlanOnGpu {
  const char* model;
  const char* plan;
  int64_t rows;
  MathMode math;
  PlanMemory memory() const {
    ParallelPlan parsed = parse_plan(plan);
    parsed.global_batch = rows;
    return plan_memory(parsed, find_model_preset(model), {2, math, true});
  }
  std::string text() const { return fmt::format("{} {} {}", model, plan, rows); }
};

/// Peaks that `plan --verify` counted on an H100, and streams from peaks that studies counted on two
/// (results/h100/plans). One kernel makes both gradients of a dense layer of up to 64 rows in tf32 and bf16; models
/// with other layers, and zero1 behind backward, have one stream for any number of rows.
TEST(DeviceMemory, PlansOnGpusHaveTheWorkspacesOfTheirStreams) {
  struct Counted {
    PlanOnGpu plan;
    int streams;
    double bytes;  // 0: not with this command
  };
  constexpr MathMode kBf16 = MathMode::bf16, kTf32 = MathMode::tf32;
  for (const Counted& counted :
       {Counted{{"large-6.9m", "dp1", 32, kBf16}, 1, 181.9e6}, Counted{{"large-6.9m", "dp1", 96, kBf16}, 2, 257.0e6},
        Counted{{"large", "dp1", 48, kBf16}, 1, 102.1e6}, Counted{{"large", "dp1", 192, kBf16}, 2, 174.6e6},
        Counted{{"transformer", "dp1", 8, kBf16}, 1, 130.6e6}, Counted{{"transformer", "dp1", 16, kBf16}, 1, 160.2e6},
        Counted{{"transformer", "dp2", 1024, kBf16}, 1, 0}, Counted{{"large-6.9m", "dp2", 64, kTf32}, 1, 0},
        Counted{{"large-6.9m", "dp2", 64, MathMode::fp32}, 2, 0}, Counted{{"large-6.9m", "dp2", 8192, kTf32}, 2, 0},
        Counted{{"large-6.9m", "dp2,zero1", 8192, kTf32}, 1, 0},
        Counted{{"large-6.9m", "dp2,zero1,no-overlap", 8192, kTf32}, 2, 0},
        Counted{{"large-6.9m", "dp2,zero3", 8192, kTf32}, 1, 0},
        Counted{{"large-6.9m", "dp2,compress=bf16", 64, kTf32}, 2, 0},
        Counted{{"large-6.9m", "dp2,compress=bf16", 8192, kTf32}, 3, 0},
        Counted{{"large-6.9m", "tp2", 8192, kTf32}, 2, 0}, Counted{{"large-6.9m", "pp2,m4,1f1b", 8192, kTf32}, 1, 0}}) {
    const PlanMemory memory = counted.plan.memory();
    const std::string text = counted.plan.text();
    EXPECT_NEAR(static_cast<double>(memory.workspace) / (65.25 * (1 << 20)), counted.streams, 0.01) << text;
    if (counted.bytes > 0) {
      EXPECT_NEAR(static_cast<double>(memory.total()) / counted.bytes, 1, 0.03) << text;
    }
  }
}

/// Bytes that peaks of studies had beyond those of other layers (results/h100/plans and models): twice what cuDNN's
/// gradient of attention needs, where that is more than a workspace of 64 MiB.
TEST(DeviceMemory, LongAttentionOnAGpuAllocatesItsOwnScratch) {
  struct Counted {
    PlanOnGpu plan;
    double bytes;
  };
  for (const Counted& counted :
       {Counted{{"gpt2", "dp1", 32, MathMode::bf16}, 204.3e6}, Counted{{"gpt2", "dp2", 64, MathMode::bf16}, 204.3e6},
        Counted{{"gpt2", "dp2", 32, MathMode::bf16}, 0}, Counted{{"gpt2", "tp2", 32, MathMode::bf16}, 0},
        Counted{{"gpt2", "pp2,m8", 32, MathMode::bf16}, 0},
        Counted{{"transformer", "dp1", 1024, MathMode::bf16}, 153.3e6},
        Counted{{"transformer", "dp2", 1024, MathMode::bf16}, 0},
        Counted{{"transformer", "dp1", 1024, MathMode::tf32}, 0}}) {
    EXPECT_NEAR(static_cast<double>(counted.plan.memory().workspace) - 65.27 * (1 << 20), counted.bytes, 0.01e9)
        << counted.plan.text();
  }
}

/// Gradients of recurrent gates, four of a unit, of the rows and units that a rank has in a micro-batch; a CPU has its
/// own work arrays instead.
TEST(DeviceMemory, PlansHaveTheGradientsOfRecurrentGates) {
  for (const char* preset : {"lstm", "gru"})
    for (const MathMode math : {MathMode::tf32, MathMode::bf16}) {
      const ModelSpec model = find_model_preset(preset);
      const LayerSpec& cells = model.layers[0];
      const int64_t gates =
          model.input_shape[0] * 4 * cells.units * static_cast<int64_t>(size_of(compute_type_of(math)));
      const auto memory = [&](const char* text) {
        ParallelPlan plan = parse_plan(text);
        plan.global_batch = 64;
        EXPECT_TRUE(plan_feasible(plan, model).ok) << text;
        return plan_memory(plan, model, {2, math, true});
      };
      const int64_t stream = memory("tp2").workspace;  // whose cells are divided: work in the memory of the layer
      EXPECT_NEAR(static_cast<double>(stream), 65.27 * (1 << 20), 0.01e6);
      for (const char* text : {"dp2", "dp2,zero2", "dp2,zero3"}) EXPECT_EQ(memory(text).workspace - stream, 32 * gates);
      EXPECT_EQ(memory("dp2,m4,zero2").workspace - stream, 8 * gates) << "of a micro-batch";
      EXPECT_EQ(memory("pp2,m4").workspace - stream, 16 * gates) << "of the micro-batch whose backward runs";
      EXPECT_LT(memory("tp2").total(), memory("dp1").total()) << preset;
      EXPECT_LT(memory("tp4").total(), memory("tp2").total()) << preset;
      EXPECT_LT(memory("dp2.tp2").total(), memory("tp2").total()) << preset;
    }
}

TEST(DeviceMemory, RecomputationAndShardsNeedLess) {
  TrainerOptions options = options_for(find_model_preset("gpt2"), Recompute::none, "adam");
  const auto total = [&] { return trainer_memory(options, BackendKind::cpu, MathMode::fp32); };
  const MemoryParts none = total();
  options.plan.recompute = static_cast<int64_t>(Recompute::selective);
  const MemoryParts selective = total();
  options.plan.recompute = static_cast<int64_t>(Recompute::block);
  const MemoryParts block = total();
  EXPECT_LT(selective.activations, none.activations);
  EXPECT_LT(block.activations, selective.activations);
  EXPECT_EQ(block.parameters, none.parameters);
  EXPECT_LT(trainer_memory(options, BackendKind::cuda, MathMode::bf16).activations, block.activations);
  options.plan.strategy = "zero1", options.plan.mesh.dp = 4;
  EXPECT_NEAR(static_cast<double>(total().optimizer), static_cast<double>(none.optimizer) / 4, 1e6);
}

TEST(DeviceMemory, WhatDoesNotFitIsRefusedWithItsPartsAndRemedies) {
  TrainerOptions options = options_for(find_model_preset("gpt2"), Recompute::none, "adam");
  options.plan.strategy = "ddp", options.plan.mesh.dp = 2, options.plan.global_batch = 1 << 20;
  JobDevices job = cpu_job_devices(1);
  const MemoryParts parts = trainer_memory(options, BackendKind::cpu, MathMode::fp32);
  const Error error = error_of([&] { require_device_memory(*job.devices[0], 2, options, parts); });
  EXPECT_EQ(error.cause(), Cause::out_of_memory);
  const std::string text = error.what();
  for (const char* part : {"model 'gpt2' with 524288 rows per device needs", "parameters 497.9 MB",
                           "gradients 497.9 MB", "optimizer 995.8 MB", "activations ", "workspace ", "data ",
                           "CPU virtual device 0 has ", " free for 2 devices"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  for (const char* remedy : {"a smaller batch", "`accumulate`", "`recompute=block`", "`strategy=zero1`"})
    EXPECT_NE(error.remedy().find(remedy), std::string::npos) << remedy << " in " << error.remedy();
  EXPECT_EQ(error.remedy().find("bf16"), std::string::npos) << "a CPU has no bf16";
  EXPECT_EQ(job.devices[0]->peak_allocated_bytes(), 0u);
  require_device_memory(*job.devices[0], 1, options_for(find_model_preset("medium"), Recompute::none, "adam"), {});
}

/// The groups of a divided model have communicators of their own, which take memory where they are in symmetric memory.
TEST(DeviceMemory, CountsTheCommunicatorsOfGroups) {
  TrainerOptions options = options_for(narrow(find_model_preset("gpt2")), Recompute::none, "adam");
  options.plan.mesh = {1, 2, 2};
  options.plan.strategy = "single";
  options.plan.global_batch = 4, options.plan.accumulate = 2;
  const auto allocated = [&](JobDevices job) {
    std::vector<int64_t> bytes(4), modelled(4);
    run_rank_threads(
        4,
        [&](int index) {
          const auto r = static_cast<size_t>(index);
          job.devices[r]->bind_thread();
          RankContext rank{index, 4, *job.devices[r], *job.ops[r], *job.communicators[r]};
          const auto before = static_cast<int64_t>(job.devices[r]->allocated_bytes());
          const Trainer trainer(rank, options);
          bytes[r] = static_cast<int64_t>(job.devices[r]->allocated_bytes()) - before;
          modelled[r] = with_groups({}, options, rank.communicator).total();
        },
        [&](const Error& cause) {
          for (auto& communicator : job.communicators) communicator->abort(cause);
        });
    return std::pair(bytes, modelled);
  };
  const auto [plain, nothing] = allocated(cpu_job_devices(4));
  const auto [symmetric, groups] = allocated(symmetric_job_devices(4));
  EXPECT_EQ(nothing, std::vector<int64_t>(4, 0));
  EXPECT_GT(groups[0], 0);
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(symmetric[r] - plain[r], groups[r]) << r;
}

}  // namespace
}  // namespace amdahl::test
