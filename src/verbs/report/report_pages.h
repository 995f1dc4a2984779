// Maps each kind of run to the function that makes its pages.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/page/page.h"
#include "spec/run_folder.h"

namespace amdahl {

/// One run, as input of a page.
struct PageRun {
  std::string name;  // as given by the user
  std::filesystem::path folder;
  RunContents contents;
};

/// Makes the pages of runs of one kind, one per set of runs that belong together.
using PageBuilder = std::vector<Page> (*)(const std::vector<const PageRun*>& runs);

struct PageKind {
  const char* kind;  // kind in the run's header
  PageBuilder pages;
};

/// One row per kind of run that has a page.
const std::vector<PageKind>& page_kinds();

/// Joins several pages into one: their sections in order, each page under its own heading, with unique names. A single
/// page is returned unchanged.
Page join_pages(std::vector<Page> pages);

}  // namespace amdahl
