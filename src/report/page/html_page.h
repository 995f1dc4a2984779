// A Page as one HTML file that opens from a disk: style, script, charts and data inside, nothing fetched.
#pragma once

#include <string>

#include "report/page/html_assets.h"
#include "report/page/page.h"

namespace amdahl {

/// The same page and assets give the same bytes. Error{internal} for a chart that is none.
std::string html_page(const Page& page, const HtmlAssets& assets);

}  // namespace amdahl
