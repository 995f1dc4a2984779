// All measurements of a machine, one part after another. Plain data.
//
// Example:
//   amdahl::AllConfig config;
//   config.output_dir = "runs/all";
//   amdahl::Observer quiet;  // of amdahl/amdahl.h
//   std::puts(to_text(amdahl::run_all(config, quiet)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

class Observer;

struct AllConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // number of devices; 0: all GPUs, or 2 virtual devices
  bool quick = false;            // fewer samples and sizes
  uint64_t seed = 42;
  double timeout_seconds = 60;                          // deadline of every wait, s
  std::string nccl_log;                                 // as in DoctorConfig
  std::string output_dir;                               // receives one folder per part
  std::string html;                                     // page to write; empty: report.html in output_dir
  std::map<std::string, std::string> environment;       // the process environment
  std::map<std::string, std::string> user_environment;  // `environment` without the variables added for NCCL's log
  std::string command_line;                             // recorded
  void (*on_fatal)(const Error&) = nullptr;             // as in EngineConfig
};

struct AllPart {
  enum class End { done, problems, failed, skipped };  // problems: machine faults or wrong results
  std::string name;                                    // "topology", "sensor bench"
  End end = End::done;
  std::string result;   // one line: the finding, or why it failed
  std::string run_dir;  // folder of its Records, or its machine file; empty: nothing was written
  double seconds = 0;
};

struct AllOutcome {
  std::vector<AllPart> parts;  // in the order they ran
  std::string page;            // HTML report of all parts; empty: nothing was measured
  bool failed = false;         // a part found problems or failed
};
/// One line per part, for a terminal.
AMDAHL_API std::string to_text(const AllOutcome& outcome);

/// Runs topology, doctor, links, collectives, study and sensor bench. A part that fails is reported and the next one
/// starts. Before anything is measured, Error{environment_missing} for devices that are not present and Error{usage}
/// for a job of several processes and an `output_dir` that cannot be written or holds parts. Error{interrupted} ends
/// all parts; finished Records are kept. Not thread-safe: one at a time per process.
AMDAHL_API AllOutcome run_all(const AllConfig& config, Observer& observer);

}  // namespace amdahl
