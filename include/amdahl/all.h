// Everything that is measured of a machine, one part after another.
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
  int devices = 0;               // how many of them; 0: all GPUs, or 2 virtual devices
  bool quick = false;            // fewer samples and sizes
  uint64_t seed = 42;
  double timeout_seconds = 60;                          // deadline of every wait
  std::string nccl_log;                                 // as in DoctorConfig
  std::string output_dir;                               // gets a folder for each part
  std::map<std::string, std::string> environment;       // of the process
  std::map<std::string, std::string> user_environment;  // without what the log of NCCL added to it
  std::string command_line;                             // recorded
  void (*on_fatal)(const Error&) = nullptr;             // as in EngineConfig
};

struct AllPart {
  enum class End { done, problems, failed, skipped };  // problems: of the machine, or wrong results
  std::string name;                                    // "topology", "sensor bench"
  End end = End::done;
  std::string result;   // one line: what was found, or why it failed
  std::string run_dir;  // where its Records, or the machine file, went; empty: nothing was written
  double seconds = 0;
};

struct AllOutcome {
  std::vector<AllPart> parts;  // in the order they ran
  std::string page;            // HTML file about all of them; empty: nothing was measured
  bool failed = false;         // a part found problems or failed
};
AMDAHL_API std::string to_text(const AllOutcome& outcome);

/// Topology, doctor, links, collectives, study and sensor bench, each by the function of its own command. A part that
/// fails is reported and the rest goes on; Error{interrupted} ends all, with the Records so far kept. Error{usage},
/// before anything is measured, for devices that are not here and an `output_dir` that cannot be written or holds runs.
AMDAHL_API AllOutcome run_all(const AllConfig& config, Observer& observer);

}  // namespace amdahl
