// failure.json of a run folder: why the run ended early, and the last collectives of each rank.
//
//   {"type":"failure","version":1,"cause":"rank-died","message":"rank 2 ...","remedy":"...","time":"...Z",
//    "rank":2,"host":"node7","signal":null,
//    "ranks":[{"rank":0,"host":"node6","process":41,"state":"running","signal":null,
//              "calls":[{"number":812,"name":"all_reduce #640 (...)","ranks":4,"age_s":5.02,"finished":false}]}]}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

struct FailureCall {
  uint64_t number = 0;     // index of the call on its rank, from 1
  std::string name;        // "all_reduce #12 (1,024 x f32, 4,096 bytes, sum)"
  int ranks = 0;           // size of the call's communicator
  double age_seconds = 0;  // time from the issue of the call to the failure
  bool finished = false;   // as seen by the host: calls enqueued on GPU streams stay unfinished
};

struct FailureRank {
  int rank = 0;
  std::string host;
  int64_t process = 0;
  bool ended = false;              // the process no longer existed when the failure was recorded
  int signal = 0;                  // signal that the process recorded; 0: none
  std::vector<FailureCall> calls;  // calls around the first unfinished one, and the last call; oldest first
};

struct Failure {
  std::string cause;  // to_string(Cause), or "unknown" when the cause could not be determined
  std::string message, remedy;
  std::string time;  // UTC
  int rank = -1;     // rank that failed, not the one that detected the failure; -1: no single rank
  std::string host;  // host of that rank; empty: unknown
  int signal = 0;    // signal that ended the rank; 0: none, or unknown
  std::vector<FailureRank> ranks;
};

inline constexpr const char* kFailureFile = "failure.json";
/// Subfolder of a run folder in which the ranks keep their flight recorders while the run lasts.
inline constexpr const char* kFlightFolder = ".flight";

std::string failure_to_json(const Failure& failure);
/// Throws Error{store_corrupt} and Error{version_refused}.
Failure failure_from_json(const std::string& text, const std::string& origin);
/// The failure.json of a run folder; nullopt when the file does not exist.
std::optional<Failure> read_failure(const std::filesystem::path& folder);
/// Writes failure.json unless it exists already: the first failure is the cause of later ones.
void write_failure(const std::filesystem::path& folder, const Failure& failure);
/// Before a run is resumed: removes its failure.json and its flight recorders.
void remove_failure(const std::filesystem::path& folder);

}  // namespace amdahl
