// What link and collective records add up to: the same for the verbs that measured them and for `report`, which reads
// them from a run folder.
#pragma once

#include <filesystem>
#include <string>

#include "amdahl/amdahl.h"
#include "spec/run_folder.h"

namespace amdahl {

/// From `records` and what `machine` was found to be: everything of `outcome` that they imply, `machine` with what was
/// measured of its links. Pairs below `min_gbps` (0: none) are slow.
void conclude_links(LinksOutcome& outcome, double min_gbps);
/// Likewise whether any of them failed.
void conclude_collectives(CollectivesOutcome& outcome);

/// report.txt and the drawing, into a folder that is there.
void write_links_report(const std::filesystem::path& folder, const LinksOutcome& outcome);
void write_collectives_report(const std::filesystem::path& folder, const CollectivesOutcome& outcome);

/// Of run folders of kinds "links" and "collectives"; `write` puts the files above into `folder`. Links read their
/// machine.json there; without that file, what the links should carry is not known, and a note says so.
ReportOutcome report_links(const std::filesystem::path& folder, const RunContents& contents, bool write);
ReportOutcome report_collectives(const std::filesystem::path& folder, const RunContents& contents, bool write);

/// What a doctor run found, as its folder says: its records, its machine with what was measured, and findings.
struct DoctorRun {
  DoctorOutcome outcome;
  bool judged = false;  // doctor.json is there
  std::vector<std::string> notes;
};
DoctorRun read_doctor_run(const std::filesystem::path& folder, const std::vector<Record>& records);
/// Throws where doctor.json is missing, without which only a page of the records can be made.
ReportOutcome report_doctor(const std::filesystem::path& folder, const RunContents& contents, bool write);

/// The machine of a links or doctor run as its folder describes it, without what was measured; from its records, and
/// with a note, where the file is missing.
MachineSpec machine_of_run(const std::filesystem::path& folder, const std::vector<Record>& records,
                           std::vector<std::string>& notes);
/// The asked-for least rate of a links run, 0 when none was.
double min_gbps_of(const RunHeader& header);

inline constexpr const char* kDoctorFile = "doctor.json";
inline constexpr const char* kMachineFile = "machine.json";
inline constexpr const char* kMinGbpsKey = "min_gbps";  // in the header's config of a links run

}  // namespace amdahl
