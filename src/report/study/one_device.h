// A study on one device: what the device does, what it could do otherwise, and what a second one could add at most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "base/number_text.h"
#include "report/page/page.h"
#include "report/study/cells.h"

namespace amdahl {

/// Nothing when a cell has several devices or none has a result. What was asked for is taken to be the launch and math
/// mode with the most cells, then runs: the others are measured at fewer batch sizes and with fewer runs.
std::optional<OneDeviceSummary> summarise_one_device(const std::vector<StudyCell>& cells, const StudyCells& runs,
                                                     const BootstrapOptions& options = {});

/// Part of the step that launching takes, 0 to 1: launch gaps of the account or, for a graph, the time of as many empty
/// kernels. Absent without an account, or when the account is not of the measured step.
std::optional<double> launch_share(const StudyCell& cell);

/// "GPU: up to 3,456,789 samples/s, at batch 1,024 (graph, bf16). A second GPU cannot pay at batch 16, whatever the
/// link." Needs `summary.one_device`.
std::string one_device_headline(const StudySummary& summary);

/// What is said below the tables: the best batch, where a second device cannot pay, and what a bound above 2 means.
std::vector<std::string> one_device_sentences(const StudySummary& summary);

/// Rows of text, the head first.
struct TextTable {
  std::string title;
  std::vector<std::vector<std::string>> rows;
};
/// The batch sizes, and the alternatives where there are any.
std::vector<TextTable> one_device_tables(const StudySummary& summary, Charset charset);

/// The same for a page.
PageSection one_device_section(const StudySummary& summary);

}  // namespace amdahl
