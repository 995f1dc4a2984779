// What the planner counts on the data axis of virtual devices, against the engine's own calls and by hand.
#include <gtest/gtest.h>

#include "model/parameter_storage.h"
#include "parallel/data/buckets.h"
#include "planner/predict.h"
#include "planner/priors.h"
#include "sequence_models.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

ParallelPlan plan_of_text(const char* text, int64_t batch) {
  ParallelPlan plan = parse_plan(text);
  plan.global_batch = batch;
  return plan;
}

Workload data_work(const ModelSpec& model, const char* text, int64_t batch = 16) {
  return make_workload(model, plan_of_text(text, batch), amdahl_profile());
}

/// Sums of short fronts in a step, which the planner does not count: they follow another collective at once.
double fronts_of(const ModelSpec& model, const ParallelPlan& plan, double reductions) {
  const ParameterLayout layout = make_layout(model);
  double fronts = 0;
  if (plan.strategy == "zero1")
    for (const Bucket& bucket : make_buckets(layout, plan))
      fronts += divide(bucket, plan.mesh.dp).front().floats() > 0 ? 1 : 0;
  if (plan.strategy == "zero2" || plan.strategy == "zero3")
    for (const ParameterUnit& unit : units_of(layout, plan.mesh.dp)) fronts += unit.parts.front > 0 ? reductions : 0;
  return fronts;
}

TEST(PlannerDataAxis, CallsAreThoseOfTheTrainer) {
  const std::vector<ModelSpec> models{find_model_preset("medium"), find_model_preset("large"),
                                      find_model_preset("lstm"), small_transformer(), small_gpt(true)};
  for (const ModelSpec& model : models)
    for (const char* text : {"dp2", "dp2,m2", "dp2,zero1", "dp2,zero2", "dp2,m4,zero2", "dp2,zero3", "dp2,m4,zero3"}) {
      TrainerOptions options;
      options.model = model;
      options.plan = plan_of_text(text, 8);
      JobDevices job = cpu_job_devices(options.plan.num_devices());
      const JobResult result = run_job(job, options, random_data(model, 8, 7), 1);
      const Workload work = data_work(model, text, 8);
      EXPECT_EQ(work.data_calls() + fronts_of(model, options.plan, work.reductions()),
                static_cast<double>(result.comm_calls[0]))
          << model.name << " " << text;
    }
}

TEST(PlannerDataAxis, ThreadsMoveBytesOfEveryCopy) {
  const ModelSpec large = find_model_preset("large");
  const auto passes = [&](const char* text) { return data_work(large, text).thread_passes(); };
  EXPECT_DOUBLE_EQ(passes("dp2"), 1);
  EXPECT_DOUBLE_EQ(passes("dp4,m2"), 1);
  EXPECT_DOUBLE_EQ(passes("dp2,zero1"), 3.0 / 4 + 1.0 / 2) << "reads both, writes half; copies the other's half";
  EXPECT_DOUBLE_EQ(passes("dp4,zero1"), 5.0 / 8 + 3.0 / 4);
  EXPECT_DOUBLE_EQ(passes("dp2,zero2"), 3.0 / 4 + 1.0 / 2 + 1.0 / 2) << "and copies its part";
  EXPECT_DOUBLE_EQ(passes("dp2,m4,zero2"), 4 * 3.0 / 4 + (1 + 3 * 1.5) / 2 + 1.0 / 2) << "or adds it";
  const Workload three = data_work(large, "dp2,zero3");
  EXPECT_GT(three.gathers(), 1.9);
  EXPECT_DOUBLE_EQ(three.thread_passes(), 3.0 / 4 + 1.0 / 2 + three.gathers()) << "gathers copy the own part too";
}

TEST(PlannerDataAxis, VirtualDevicesPayForEachCallAndCopy) {
  Rates rates = cpu_prior(2);
  rates.dp_alpha_us = 50, rates.tp_alpha_us = 20, rates.dp_gbps = 10;
  const auto exposed = [&](const char* text) {
    const Workload work = data_work(find_model_preset("large"), text);
    return account_of(work, rates, PipelineMethod::simulation).exposed_dp_us;
  };
  const double bytes_us = 4.0 * static_cast<double>(find_model_preset("large").num_parameters()) / 10e3;
  EXPECT_NEAR(exposed("dp2"), 50 + bytes_us, 1e-6);
  EXPECT_NEAR(exposed("dp2,zero1,no-overlap"), 50 + 20 + 1.25 * bytes_us, 1e-6);
  EXPECT_NEAR(exposed("dp2,zero2"), 50 + 11 * 20 + 1.75 * bytes_us, 1e-6) << "six layers, each reduced and gathered";
  EXPECT_NEAR(exposed("dp2,zero2,bucket-mb=1"), exposed("dp2,zero2"), 1e-6) << "layers are not in buckets";
  rates.shared_cores = 0;
  EXPECT_LT(exposed("dp2,zero2,no-overlap"), 50 + bytes_us + 1e-6) << "GPUs: two halves";
}

}  // namespace
}  // namespace amdahl::test
