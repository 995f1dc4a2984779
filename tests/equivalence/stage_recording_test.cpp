// What a recorded stage says beside what its description says, and beside what ranks pass to collectives.
#include "parallel/stage_recording.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "parallel/pipeline/schedule.h"
#include "plan/layer_kinds.h"
#include "plan/plan_rules.h"
#include "plan_job.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

StageCase whole_model(const ModelSpec& model, int64_t rows) {
  return {.layers = {0, model.layers.size()}, .roles = tensor_roles(model), .rows = rows};
}

std::vector<SmallModel> all_models() {
  std::vector<SmallModel> models = small_models();
  for (const ModelSpec& preset : model_presets()) models.push_back({preset.name, preset});
  return models;
}

/// Backward has twice the products of forward, less those of the gradient of the features; and a token head's of
/// forward.
TEST(StageRecording, HasTheFlopOfTheFormulas) {
  constexpr int64_t kRows = 3;
  for (const auto& [name, model] : all_models()) {
    const StageRecording stage = record_stage(model, whole_model(model, kRows), BackendKind::cpu, MathMode::fp32);
    const auto flops_of = [&](size_t i) {
      return kRows * row_of(model.layers[i].kind).forward_flops(model.layers[i], model.layer_input_shape(i));
    };
    double forward = 0;
    for (size_t i = 0; i < model.layers.size(); ++i) forward += flops_of(i);
    const size_t last = model.layers.size() - 1;
    const double logits = model.layers[last].kind == LayerKind::token_head ? flops_of(last) : 0;
    EXPECT_NEAR(stage.forward.flops() / (forward - logits), 1, 1e-12) << name;
    const LayerSpec& first = model.layers[0];
    double left_out = flops_of(0);
    if (first.kind == LayerKind::lstm || first.kind == LayerKind::gru)
      left_out *= static_cast<double>(model.input_shape[1]) / static_cast<double>(model.input_shape[1] + first.units);
    EXPECT_NEAR(stage.backward.flops() / (2 * forward - left_out + logits), 1, 1e-12) << name;
    EXPECT_NEAR((stage.forward.flops() + stage.backward.flops()) / step_flops(model, kRows), 1, 1e-12) << name;
  }
}

/// Korthikanti et al. count 34 bytes x steps x units per block in 16 bits with dropout masks; here without masks, in
/// f32.
TEST(StageRecording, RecomputationKeepsLess) {
  const ModelSpec gpt2 = find_model_preset("gpt2");
  const int64_t blocks = 12, floats = blocks * 1024 * 4;
  const auto kept = [&](Recompute recompute) {
    StageCase stage = whole_model(gpt2, 2);
    stage.recompute = recompute;
    return record_stage(gpt2, stage, BackendKind::cpu, MathMode::fp32).slot_bytes;
  };
  EXPECT_EQ(kept(Recompute::none) - kept(Recompute::block), 2 * floats * (15 * 768 + 12 + 4));
  EXPECT_EQ(kept(Recompute::none) - kept(Recompute::selective), 2 * floats * (10 * 768 + 2));
}

/// Llama 3 8B's vocabulary: the memory of logits does not grow with the tokens, and theirs alone is a GiB.
TEST(StageRecording, HoldsTheLogitsOfOneChunk) {
  ModelSpec model = small_gpt(false);
  model.layers.front().vocabulary = model.layers.back().vocabulary = 128'256;
  const auto recorded = [&](int64_t rows, MathMode math) {
    return record_stage(model, whole_model(model, rows), BackendKind::cuda, math);
  };
  const int64_t row_tokens = model.input_shape[0];
  for (const auto& [math, type] : {std::pair{MathMode::fp32, DType::f32}, {MathMode::bf16, DType::bf16}}) {
    const int64_t token_bytes = 128'256 * static_cast<int64_t>(size_of(type));
    const int64_t rows = (int64_t{8} << 30) / token_bytes / row_tokens;
    const StageRecording few = recorded(rows, math), many = recorded(4 * rows, math);
    EXPECT_LT(few.shared_bytes, (int64_t{1} << 30) + 2 * 128'256 * 16 * 4);
    EXPECT_GT(few.shared_bytes, (int64_t{7} << 30) / 8);
    EXPECT_LT(std::abs(many.shared_bytes - few.shared_bytes), int64_t{1} << 26);
    EXPECT_LT(many.slot_bytes, int64_t{4} << 30);  // logits of all tokens: 32 GiB
    EXPECT_NEAR(many.backward.flops() / few.backward.flops(), 4, 1e-9);
  }
}

TEST(StageRecording, CountsWhatTensorParallelRanksExchange) {
  int tested = 0;
  for (const auto& [name, model] : small_models())
    for (const char* text : {"tp2", "tp4", "tp2,sp", "tp2,recompute=block", "tp2,recompute=selective,m2"}) {
      ParallelPlan plan = parse_plan(text);
      plan.global_batch = 4;
      if (!plan_feasible(plan, model).ok) continue;
      ++tested;
      StageCase stage = whole_model(model, plan.global_batch / plan.accumulate);
      stage.tensor_ranks = plan.mesh.tp;
      stage.recompute = static_cast<Recompute>(plan.recompute);
      if (plan.sequence_parallel) stage.divided_tokens = divided_tokens(model);
      TrainerOptions options;
      options.model = model, options.plan = plan;
      JobDevices job = cpu_job_devices(plan.num_devices());
      size_t bytes = 0;
      on_trainers(job, options, random_data(model, plan.global_batch, 1),
                  [&](Trainer& trainer, const float* features, const float* targets, int rank) {
                    trainer.parts().divided.take_traffic();
                    trainer.step(features, targets);
                    trainer.synchronize();
                    if (rank == 0) bytes = trainer.parts().divided.take_traffic();
                  });
      EXPECT_EQ(plan.accumulate * record_stage(model, stage, BackendKind::cpu, MathMode::fp32).tensor_bytes,
                static_cast<int64_t>(bytes))
          << name << " under " << text;
    }
  EXPECT_GT(tested, 10);
}

TEST(StageRecording, SlotsOfManyMicroBatchesAreThoseOfTheSteadyState) {
  for (const ScheduleKind kind : schedule_kinds())
    for (int ranks = 2; ranks <= 7; ++ranks)
      for (int chunks = least_chunks(kind); chunks <= (kind == ScheduleKind::interleaved ? 4 : least_chunks(kind));
           ++chunks)
        for (int m = 1; m <= 9 * ranks; ++m) {
          if (!schedule_feasible(kind, ranks, m, chunks).ok) continue;
          const PipelineSchedule schedule = make_schedule(kind, ranks, m, chunks);
          const std::vector<int> slots = slots_of_stages(kind, ranks, m, chunks);
          for (int stage = 0; stage < schedule.num_stages; ++stage)
            ASSERT_EQ(slots[static_cast<size_t>(stage)], assign_slots(schedule, stage).count)
                << to_string(kind) << ", " << ranks << " ranks, " << m << " micro-batches, stage " << stage;
        }
}

}  // namespace
}  // namespace amdahl::test
