// MFU: peaks by the names of devices, and the share of them in studies and comparisons.
#include <gtest/gtest.h>

#include "plan/gpu_kinds.h"
#include "report/compare/compare.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "study_texts.h"

namespace amdahl {
namespace {

/// Runs of 1 ms whose products are 0.2 TFLOP, on devices with this name.
std::vector<Record> runs_on(const std::string& name, int64_t devices = 1, const std::string& math = "bf16") {
  std::vector<Record> records;
  test::add_cell(records, {.devices = devices, .step_us = 1000, .num_runs = 5, .math = math, .noise = 0});
  for (Record& record : records) {
    record.provenance.facts.erase("device.0.name");
    for (int64_t i = 0; i < devices; ++i) record.provenance.facts["device." + std::to_string(i)] = name;
    record.series.push_back({"model_flop_rate", "TFLOP/s", {200.0}});
  }
  return records;
}

TEST(FlopShare, PeaksAreThoseOfExactlyTheDevice) {
  const auto peak = [](const std::string& name, std::string_view math = "bf16") {
    return peak_flops({name}, 1, math).value_or(0) / 1e12;
  };
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200"), 989);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", "tf32"), 495);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", "fp32"), 67);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", "fp16"), 989);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H100 80GB HBM3"), 989);
  EXPECT_DOUBLE_EQ(peak("NVIDIA A100-SXM4-40GB"), 312);
  EXPECT_DOUBLE_EQ(peak("NVIDIA GeForce RTX 4070 Ti SUPER"), 88);
  for (const char* name : {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H20",
                           "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA T4",
                           "NVIDIA H200, 32 of 132 SMs, emulated", "CPU virtual device", "NVIDIA", ""})
    EXPECT_EQ(peak(name), 0) << name;
  EXPECT_DOUBLE_EQ(peak_flops({"NVIDIA H200", "NVIDIA A100-SXM4-80GB"}, 2, "bf16").value_or(0), 1301e12);
  EXPECT_FALSE(peak_flops({"NVIDIA H200", "NVIDIA T4"}, 2, "bf16"));
  EXPECT_FALSE(peak_flops({"NVIDIA H200"}, 2, "bf16"));
  EXPECT_FALSE(peak_flops({}, 0, "bf16"));
}

TEST(FlopShare, StandsBesideTheThroughputOfKnownGpus) {
  for (const int64_t devices : {1, 2}) {
    const StudySummary study = summarise_study(runs_on("NVIDIA H200", devices));
    ASSERT_TRUE(study.cells.at(0).model_flop_share);
    EXPECT_NEAR(*study.cells[0].model_flop_share, 200.0 / (989 * static_cast<double>(devices)), 1e-9);
    const std::string markdown = test::study_markdown(study);
    EXPECT_NE(markdown.find("MFU (%)"), std::string::npos) << markdown;
    EXPECT_NE(markdown.find(devices == 1 ? "MFU 20.2 % of the data sheet's peak in bf16" : "MFU 10.1 %"),
              std::string::npos)
        << markdown;
    EXPECT_NE(summary_to_json(study).find("\"model_flop_share\": 0."), std::string::npos);
  }
  for (const char* name : {"GPU_X", "NVIDIA H100 PCIe"}) {
    const StudySummary study = summarise_study(runs_on(name));
    EXPECT_FALSE(study.cells.at(0).model_flop_share) << name;
    EXPECT_EQ(test::study_markdown(study).find("MFU"), std::string::npos) << name;
    EXPECT_EQ(summary_to_json(study).find("model_flop_share"), std::string::npos) << name;
  }
}

TEST(FlopShare, StandsInAReportOfATraining) {
  Record epoch;
  epoch.kind = "train-epoch";
  epoch.provenance = test::fake_provenance("cuda");
  epoch.axes = {{"model", std::string("gpt2")}, {"num_parameters", int64_t{124'439'808}}, {"global_batch", int64_t{32}},
                {"devices", int64_t{1}},        {"strategy", std::string("single")},      {"epoch", int64_t{1}}};
  epoch.series = {{"train_loss", "1", {2.0}}};
  EXPECT_EQ(text_page(training_page({epoch})).find("MFU"), std::string::npos);
  epoch.series.push_back({"model_flop_rate", "TFLOP/s", {412.0}});
  epoch.series.push_back({"model_flop_share", "1", {0.4166}});
  const std::string text = markdown_page(training_page({epoch}));
  EXPECT_NE(text.find("412 TFLOP/s of forward and backward, MFU 41.7 %"), std::string::npos) << text;
}

TEST(FlopShare, IsThatOfBothSidesOfAComparison) {
  std::vector<Record> faster = runs_on("NVIDIA H200");
  for (Record& record : faster) record.series[0].samples = {500.0}, record.series.back().samples = {400.0};
  const RunComparison known = compare_runs(runs_on("NVIDIA H200"), faster, {});
  EXPECT_NEAR(known.cells.at(0).model_flop_share_a.value_or(0), 200.0 / 989, 1e-9);
  EXPECT_NEAR(known.cells.at(0).model_flop_share_b.value_or(0), 400.0 / 989, 1e-9);
  const std::string text = text_page(compare_page({{known}}, ""));
  EXPECT_NE(text.find("20.2 %"), std::string::npos) << text;
  EXPECT_NE(text.find("40.4 %"), std::string::npos) << text;
  EXPECT_NE(comparison_to_json({{known}}, "").find("model_flop_share_b"), std::string::npos);
  const RunComparison other = compare_runs(runs_on("GPU_X"), runs_on("GPU_X"), {});
  EXPECT_EQ(text_page(compare_page({{other}}, "")).find("MFU"), std::string::npos);
}

}  // namespace
}  // namespace amdahl
