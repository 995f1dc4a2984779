// A Page as Markdown, for repositories and pull requests.
#pragma once

#include <map>
#include <string>

#include "report/page/page.h"

namespace amdahl {

/// `pictures` has the path of each chart's picture by the chart's id, as it stands in the file; charts without one keep
/// their table, and `why_none`, if not empty, says once why there is no picture. Tables beyond `kMarkdownRows` rows are
/// cut, and say so.
std::string markdown_page(const Page& page, const std::map<std::string, std::string>& pictures,
                          const std::string& why_none);

inline constexpr size_t kMarkdownRows = 120;

}  // namespace amdahl
