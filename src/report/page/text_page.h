// Renders a Page as plain text for a terminal or a file.
#pragma once

#include <string>

#include "base/number_text.h"
#include "report/page/page.h"

namespace amdahl {

struct TextStyle {
  int width = 0;  // columns of the terminal; 0: no limit, sentences and rows take one line each
  Charset charset = Charset::ascii;
};

/// Verdict, qualifier, facts, the sections with their tables, notes. Charts, provenance and what is marked as detail
/// are left out. Columns of one value become a line "common: ...". A table that is too wide gets heads of several
/// lines, then footnotes instead of long cells, then becomes two tables, and is at last written as a block per row.
std::string text_page(const Page& page, const TextStyle& style = {});

}  // namespace amdahl
