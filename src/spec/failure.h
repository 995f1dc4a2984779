// failure.json of a run folder: why the run ended early, and the collectives that each of its ranks was in.
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
  uint64_t number = 0;     // counts the rank's calls from 1
  std::string name;        // "all_reduce #12 (1,024 x f32, 4,096 bytes, sum)"
  int ranks = 0;           // of its communicator
  double age_seconds = 0;  // from its issue to the failure
  bool finished = false;   // as far as the host knows: calls on GPU streams stay unfinished
};

struct FailureRank {
  int rank = 0;
  std::string host;
  int64_t process = 0;
  bool ended = false;              // its process no longer existed when the failure was noted
  int signal = 0;                  // that its process noted; 0: none
  std::vector<FailureCall> calls;  // around the first unfinished one, and the last; oldest first
};

struct Failure {
  std::string cause;  // to_string(Cause), or "unknown" of a run that nobody could say it of
  std::string message, remedy;
  std::string time;  // UTC
  int rank = -1;     // that failed, not the one that noticed; -1: none in particular
  std::string host;  // of that rank; empty: not known
  int signal = 0;    // that ended it; 0: none, or not known
  std::vector<FailureRank> ranks;
};

inline constexpr const char* kFailureFile = "failure.json";
/// Folder of a run in which ranks keep their flight recorders while it lasts.
inline constexpr const char* kFlightFolder = ".flight";

std::string failure_to_json(const Failure& failure);
/// Error{store_corrupt}, Error{version_refused}.
Failure failure_from_json(const std::string& text, const std::string& origin);
/// Of a run folder; nothing where there is none.
std::optional<Failure> read_failure(const std::filesystem::path& folder);
/// Unless one is there already: the first failure is the cause of the others.
void write_failure(const std::filesystem::path& folder, const Failure& failure);
/// Of a run that goes on: its failure and what its ranks left.
void remove_failure(const std::filesystem::path& folder);

}  // namespace amdahl
