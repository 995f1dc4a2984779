// Findings about the training configuration from a study; they are determined where its cells are summarised.
#include <algorithm>
#include <iterator>

#include "doctor/findings.h"

namespace amdahl {
namespace {

constexpr const char* kNames[] = {"data-parallel", "small-batch", "missing-overlap", "much-communication"};

template <size_t kRow>
std::vector<Finding> check(const Evidence& evidence) {
  std::vector<Finding> found;
  std::copy_if(evidence.training.begin(), evidence.training.end(), std::back_inserter(found),
               [](const Finding& finding) { return finding.name == kNames[kRow]; });
  return found;
}

template <size_t kRow>
bool has_evidence(const Evidence& evidence) {
  return std::find(evidence.training_checked.begin(), evidence.training_checked.end(), kNames[kRow]) !=
         evidence.training_checked.end();
}

template <size_t kRow>
FindingRow row(std::string_view looks_at) {
  return {kNames[kRow], looks_at, check<kRow>, has_evidence<kRow>};
}

}  // namespace

std::vector<FindingRow> training_rows() {
  return {row<0>("strategy of cells on several devices"), row<1>("samples/s of one device at twice the batch"),
          row<2>("communication beside backward"), row<3>("exposed communication in the step")};
}

}  // namespace amdahl
