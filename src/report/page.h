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
};

/// A drawing that is there already, not a chart of a table: a machine's topology.
struct Picture {
  std::string id;  // unique in its page, [a-z0-9-], like a chart's
  std::string title;
  std::string summary;  // text alternative
  std::string svg;      // a document of its own, with styles for light and dark: to be shown as an image
};

struct PageSection {
  std::string anchor;  // unique in its page, [a-z0-9-]
  std::string title;
  std::vector<std::string> paragraphs;  // plain text
  std::vector<Chart> charts;
  std::vector<PageTable> tables;
  std::vector<Picture> pictures{};  // shown before the charts
};

/// One page about one or several runs. Plain text throughout: the renderers escape it.
struct Page {
  std::string title;               // of the window: what was measured where
  std::string qualifier;           // beside the heading: "measured on CPU virtual devices, not GPUs"; else empty
  std::string verdict;             // one sentence that a manager understands
  std::vector<std::string> facts;  // the three behind it, each with number, unit, sample count and interval
  std::vector<PageSection> sections;
  std::vector<std::pair<std::string, std::string>> provenance;  // machine, versions, how it was measured
  std::vector<std::string> notes;                               // what could not be read, was left out or failed
  std::string embedded_json;  // records or summary, so that the page can be read again
};

}  // namespace amdahl
