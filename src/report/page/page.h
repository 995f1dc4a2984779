// A report page before it is HTML or Markdown: what is said in which order, with charts and tables. Built by one
// function for each kind of run; rendered by html_page() and markdown_page().
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

/// A table that is no chart's: results, failures, provenance.
struct PageTable {
  std::string caption;
  DataTable table;
  std::string common{};  // what all rows share, instead of columns that always say the same; see fold_constant_columns
};

/// A drawing that is there already, not a chart of a table: a machine's topology.
struct Picture {
  std::string id;  // unique in its page, [a-z0-9-], like a chart's
  std::string title;
  std::string summary;  // text alternative
  std::string svg;      // a document of its own, with styles for light and dark: to be shown as an image
};

/// What a page is about, for the title of several: "2 studies of large and medium on 4 x NVIDIA H200".
struct PageSubject {
  std::string one, many;  // "study", "studies"
  std::string what;       // "large, medium"; may be empty
  std::string where;      // "4 x NVIDIA H200"
  int64_t num_runs = 1;   // a page of pooled runs has several
};

struct PageSection {
  std::string anchor;  // unique in its page, [a-z0-9-]
  std::string title;
  std::vector<std::string> paragraphs;  // plain text
  std::vector<Chart> charts;
  std::vector<PageTable> tables;
  std::vector<Picture> pictures{};  // shown before the charts
  bool begins_part = false;         // the heading of one report of several
};

/// One page about one or several runs. Plain text throughout: the renderers escape it.
struct Page {
  PageSubject subject;
  std::string title;               // of the window: what was measured where
  std::string qualifier;           // beside the heading: "measured on CPU virtual devices, not GPUs"; else empty
  std::string verdict;             // one sentence that a manager understands; empty for several reports
  std::vector<std::string> facts;  // the three behind it, each with number, unit, sample count and interval
  std::vector<std::pair<std::string, std::string>> parts;  // of several reports: anchor and what it says, for links
  std::vector<PageSection> sections;
  std::vector<std::pair<std::string, std::string>> provenance;  // machine, versions, how it was measured
  std::vector<std::string> notes;                               // what could not be read, was left out or failed
  std::string embedded_json;  // records or summary, so that the page can be read again
};

}  // namespace amdahl
