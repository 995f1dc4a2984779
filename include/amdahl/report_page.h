// A report of one or several runs: one HTML file, or Markdown with a folder of pictures. Plain data.
//
// Example:
//   amdahl::PageConfig config;
//   config.runs = {"runs/study"};
//   config.html = "study.html";
//   amdahl::run_page_report(config);  // of amdahl/amdahl.h
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

struct PageConfig {
  std::vector<std::string> runs;  // run folders, folders of run folders, or records.jsonl files
  std::string html;               // file to write; empty: none
  std::string markdown;           // file to write, with pictures in the folder FILE_charts; empty: none
  /// Python interpreters, of which the first with vl_convert draws the pictures of Markdown. An empty name stands for
  /// the interpreter of this build.
  std::vector<std::string> picture_pythons;
};

struct PageOutcome {
  std::string title, qualifier, verdict;
  std::vector<std::string> written;  // files
  std::vector<std::string> notes;    // what could not be read or drawn
  std::optional<Error> problem;      // of the first unreadable run, when other runs were readable
};

}  // namespace amdahl
