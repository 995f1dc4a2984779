// A report of one or several runs as a page: one HTML file, or Markdown with its pictures beside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

struct PageConfig {
  std::vector<std::string> runs;  // run folders, folders of them, or their records.jsonl
  std::string html;               // file to write; empty: none
  std::string markdown;           // file to write, its pictures in a folder FILE_charts beside it; empty: none
  /// Python interpreters; the first that has vl_convert draws Markdown's pictures. An empty name: that of this build.
  std::vector<std::string> picture_pythons;
};

struct PageOutcome {
  std::string title, qualifier, verdict;
  std::vector<std::string> written;  // files
  std::vector<std::string> notes;    // what could not be read or drawn
  std::optional<Error> problem;      // of the first run that could not be read while others could
};

}  // namespace amdahl
