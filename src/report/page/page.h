// A report page before rendering: its texts, charts and tables in order. Built by one function per kind of run;
// rendered by text_page(), markdown_page() and html_page().
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

/// A table that belongs to no chart: results, failures, provenance.
struct PageTable {
  std::string caption;
  DataTable table;
  bool in_text = true;   // false: detail that text_page() leaves out
  bool in_pages = true;  // false: HTML and Markdown show the same numbers in a chart
};

/// A finished drawing, not a chart of a table: a machine's topology.
struct Picture {
  std::string id;  // unique within the page, [a-z0-9-], like a chart's
  std::string title;
  std::string summary;  // text alternative
  std::string svg;      // a complete document with styles for light and dark, shown as an image
};

/// Subject of a page, used in the title of a page about several runs: "2 studies of large and medium on 4 x NVIDIA
/// H200".
struct PageSubject {
  std::string one, many;  // "study", "studies"
  std::string what;       // "large, medium"; may be empty
  std::string where;      // "4 x NVIDIA H200"
  int64_t num_runs = 1;   // more than 1 when runs are pooled
};

struct PageSection {
  std::string anchor;  // unique in its page, [a-z0-9-]
  std::string title;
  std::vector<std::string> paragraphs;  // plain text
  std::vector<Chart> charts;
  std::vector<PageTable> tables;
  std::vector<Picture> pictures{};        // shown before the charts
  bool begins_part = false;               // first section of one of several reports
  std::vector<std::string> details{};     // explanations after the paragraphs, left out of text
  std::vector<std::string> short_form{};  // what text_page() shows instead of the tables
  bool in_text = true;                    // false: detail that text_page() leaves out
};

/// One page about one or several runs. All texts are plain: the renderers escape them.
struct Page {
  PageSubject subject;
  std::string title;      // window title: what was measured where
  std::string qualifier;  // shown next to the heading: "measured on CPU virtual devices, not GPUs"; or empty
  std::vector<std::string> warnings{};  // before the verdict: why the numbers may not be those of the devices
  std::string verdict;             // one sentence for non-specialists; of several reports only with a machine's health
  std::vector<std::string> facts;  // up to three supporting facts, each with number, unit, sample count and interval
  std::vector<std::pair<std::string, std::string>> parts;  // links to the parts of several reports: anchor and label
  std::vector<PageSection> sections;
  std::vector<std::pair<std::string, std::string>> provenance;  // machine, versions, how it was measured
  std::vector<std::string> notes;                               // what could not be read, was skipped or failed
  std::string embedded_json;                                    // records or summary, so that the page can be read back
};

}  // namespace amdahl
