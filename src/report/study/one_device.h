// A study on one device: its performance, the alternatives on it, and an upper bound of the gain from a second device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/summary.h"
#include "report/page/page.h"
#include "report/study/cells.h"

namespace amdahl {

/// nullopt when a cell has several devices or none has a result. The requested launch and math mode is taken to be the
/// one with the most cells, then runs: alternatives are measured at fewer batch sizes and with fewer runs.
std::optional<OneDeviceSummary> summarise_one_device(const std::vector<StudyCell>& cells, const StudyCells& runs);

/// Share of the step spent on launching, 0 to 1: launch gaps of the account or, for a graph, the time of as many empty
/// kernels. nullopt without an account, or when the account does not match the measured step.
std::optional<double> launch_share(const StudyCell& cell);

/// "GPU: up to 3,456,789 samples/s, at batch 1,024 (graph, bf16). A second GPU cannot pay at batch 16, whatever the
/// link." Needs `summary.one_device`.
std::string one_device_headline(const StudySummary& summary);

/// Sentences below the tables: the best batch, where a second device cannot pay, and the meaning of a bound above 2.
std::vector<std::string> one_device_sentences(const StudySummary& summary);

/// Every batch size, the alternatives on one device, and the sentences.
PageSection one_device_section(const StudySummary& summary);

}  // namespace amdahl
