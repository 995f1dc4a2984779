// From run folders to pages: which function makes the pages of a kind of run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/page/page.h"
#include "spec/run_folder.h"

namespace amdahl {

/// One run as a page reads it.
struct PageRun {
  std::string name;  // as the user wrote it
  std::filesystem::path folder;
  RunContents contents;
};

/// Pages of runs of one kind, one for each set of runs that belongs together.
using PageBuilder = std::vector<Page> (*)(const std::vector<const PageRun*>& runs);

struct PageKind {
  const char* kind;  // of the run's header
  PageBuilder pages;
};

/// A row a kind of run that has a page.
const std::vector<PageKind>& page_kinds();

/// Pages of several subjects as one: their sections one after another under a heading each, names made unique. One page
/// stays as it is.
Page join_pages(std::vector<Page> pages);

}  // namespace amdahl
