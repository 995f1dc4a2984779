// Renders a Page as Markdown, for repositories and pull requests.
#pragma once

#include <map>
#include <string>

#include "report/page/page.h"

namespace amdahl {

/// `pictures`: chart id -> path of its picture as written into the file. Charts without a picture keep only their
/// table; `why_none`, if not empty, gives the reason once. Tables with more than `kMarkdownRows` rows are truncated,
/// with a remark.
std::string markdown_page(const Page& page, const std::map<std::string, std::string>& pictures,
                          const std::string& why_none);

/// The page without its charts, for a stream or a file that has no pictures beside it: tables have the numbers.
std::string markdown_page(Page page);

inline constexpr size_t kMarkdownRows = 120;

}  // namespace amdahl
