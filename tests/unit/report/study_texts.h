// What a study's page says as text and in Markdown.
#pragma once

#include <string>

#include "report/page/markdown_page.h"
#include "report/page/text_page.h"
#include "report/study/page.h"

namespace amdahl::test {

inline std::string study_text(const StudySummary& summary, const TextStyle& style = {}) {
  return text_page(study_page(summary, {}), style);
}

inline std::string study_markdown(const StudySummary& summary) { return markdown_page(study_page(summary, {})); }

}  // namespace amdahl::test
