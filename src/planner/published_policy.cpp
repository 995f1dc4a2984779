// The thresholds of the published study. They are reproduced here to be compared with measurements, not as a
// recommendation.
#include <fmt/format.h>

#include "amdahl/error.h"
#include "planner/advise.h"

namespace amdahl {
namespace {

constexpr int64_t kSmallModelMaxParams = 1'000'000;
constexpr int64_t kMediumModelMaxParams = 5'000'000;
constexpr int64_t kLargeModelMinParams = 10'000'000;
constexpr int64_t kMediumModelMinBatch = 128;
constexpr int64_t kMinBatchMultiDevice = 64;

// The study's second rule: its table of parameter ranges.
struct RangeRow {
  int64_t below;
  const char* benefit;
  int confidence_percent;
};
constexpr RangeRow kRangeTable[] = {{500'000, "never", 99},
                                    {1'000'000, "never", 95},
                                    {5'000'000, "rarely (under 5 %)", 90},
                                    {10'000'000, "sometimes (20 %)", 75},
                                    {25'000'000, "often (60 %)", 85},
                                    {50'000'000, "usually (80 %)", 90},
                                    {INT64_MAX, "always", 95}};

void select(const AdviceRequest& request, Advice& advice) {
  const std::string parameters = with_thousands(request.num_parameters) + " parameters";
  if (request.num_parameters < kSmallModelMaxParams) {
    advice.decision = "single";
    advice.reason = fmt::format("published selector: {} is below 1M, too small", parameters);
  } else if (request.num_parameters < kMediumModelMaxParams) {
    const bool small_batch = request.global_batch < kMediumModelMinBatch;
    advice.decision = small_batch ? "single" : "evaluate";
    advice.reason = fmt::format("published selector: {} is a medium model (1M to 5M), batch {} is {} {}", parameters,
                                request.global_batch, small_batch ? "below" : "at least", kMediumModelMinBatch);
  } else if (request.num_parameters >= kLargeModelMinParams) {
    const bool multi = request.global_batch >= kMinBatchMultiDevice;
    advice.decision = multi ? "multi" : "single";
    advice.reason = fmt::format("published selector: {} is a large model (from 10M), batch {} is {} {}", parameters,
                                request.global_batch, multi ? "at least" : "below", kMinBatchMultiDevice);
  } else {
    advice.decision = "benchmark";
    advice.reason = fmt::format("published selector: {} lies between 5M and 10M, to be tested", parameters);
  }
}

}  // namespace

Advice advise_published(const AdviceRequest& request) {
  Advice advice;
  select(request, advice);
  advice.modes_to_measure = {"single"};
  if (advice.decision != "single") advice.modes_to_measure.push_back("multi");

  advice.evidence.push_back(
      "origin: thresholds of a study of two RTX 4070 Ti SUPER on a PCIe host bridge without peer access (TensorFlow); "
      "nothing was measured here");
  for (const RangeRow& row : kRangeTable) {
    if (request.num_parameters >= row.below) continue;
    advice.evidence.push_back(
        fmt::format("the study's own table says multi-GPU helps a model of this size {} ({} % confidence)", row.benefit,
                    row.confidence_percent));
    break;
  }
  advice.evidence.push_back(
      "its thresholds contradict each other: its README says never below 1M, its table never below 500K and again "
      "below 1M "
      "and often only from 10M, its selector yes from 10M, its cost analysis break-even at 15M to 20M");
  advice.evidence.push_back(
      "both of its measured models (stated as 258,432 and 6,885,376 parameters) lost on two GPUs at every batch: no "
      "threshold "
      "above them was measured");
  if (advice.decision == "benchmark")
    advice.evidence.push_back(
        "its script then measured single only, although the text asks for a test; both are listed here");
  return advice;
}

}  // namespace amdahl
