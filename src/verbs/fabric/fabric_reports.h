// Conclusions from link and collective records: shared by the verbs that measure and by `report`, which reads the
// records from a run folder.
#pragma once

#include <filesystem>
#include <string>

#include "amdahl/fabric.h"
#include "amdahl/report.h"
#include "spec/run_folder.h"

namespace amdahl {

/// Fills every field of `outcome` that follows from its `records` and `machine`; `machine` gets the measured values of
/// its links. Pairs below `min_gbps` (0: no limit) are slow.
void conclude_links(LinksOutcome& outcome, double min_gbps);
/// Fills every field of `outcome` that follows from its records, and whether any of them failed.
void conclude_collectives(CollectivesOutcome& outcome);

/// Writes report.txt and the drawing into an existing folder.
void write_links_report(const std::filesystem::path& folder, const LinksOutcome& outcome);
void write_collectives_report(const std::filesystem::path& folder, const CollectivesOutcome& outcome);

/// Reports of run folders of kinds "links" and "collectives"; with `write`, the files above are written to `folder`.
/// For links, machine.json is read from the folder; without it, the expected rates are unknown, and a note says so.
ReportOutcome report_links(const std::filesystem::path& folder, const RunContents& contents, bool write, int width);
ReportOutcome report_collectives(const std::filesystem::path& folder, const RunContents& contents, bool write,
                                 int width);

/// Fills every field of `outcome` that follows from its records.
void conclude_onesided(OneSidedOutcome& outcome);
/// Writes report.txt and onesided.json into an existing folder.
void write_onesided_report(const std::filesystem::path& folder, const OneSidedOutcome& outcome);
ReportOutcome report_onesided(const std::filesystem::path& folder, const RunContents& contents, bool write, int width);

/// Results of a doctor run, read from its folder: records, machine with measured values, and findings.
struct DoctorRun {
  DoctorOutcome outcome;
  bool judged = false;  // doctor.json exists
  std::vector<std::string> notes;
};
DoctorRun read_doctor_run(const std::filesystem::path& folder, const std::vector<Record>& records);
/// Throws when doctor.json is missing: without it only a page of the records can be made.
ReportOutcome report_doctor(const std::filesystem::path& folder, const RunContents& contents, bool write, int width);

/// The machine of a links or doctor run from machine.json, without measured values. When the file is missing, it is
/// reconstructed from the records, with a note.
MachineSpec machine_of_run(const std::filesystem::path& folder, const std::vector<Record>& records,
                           std::vector<std::string>& notes);
/// The minimum rate requested for a links run, GB/s; 0 when none was.
double min_gbps_of(const RunHeader& header);

inline constexpr const char* kDoctorFile = "doctor.json";
inline constexpr const char* kChoiceFile = "onesided.json";
inline constexpr const char* kMachineFile = "machine.json";
inline constexpr const char* kMinGbpsKey = "min_gbps";  // key in the header's config of a links run

}  // namespace amdahl
