// Summarises the records of a study. Pure: the same records give the same summary.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

struct StudyOptions {
  bool allow_several_hosts = false;  // pool runs of different hosts or device names, with a note
};

/// Pools the "study-run" records into cells, compares every multi-device cell with the best one-device cell of its
/// batch, and concludes. Other kinds of record are ignored; failed and waived runs are counted and named. Throws
/// Error{usage} when cpu-virtual and cuda records are mixed, or hosts or device names differ and that is not allowed;
/// Error{store_corrupt} when an ok record lacks an axis or series of the contract.
StudySummary summarise_study(const std::vector<Record>& records, const StudyOptions& options = {});

/// Null when the summary has no such cell.
const StudyCell* find_cell(const StudySummary& summary, const CellKey& key);

/// The cell that a "study-run" record is a sample of. Throws Error{store_corrupt} naming a missing axis.
CellKey cell_key_of(const Record& record);

}  // namespace amdahl
