// Renders a Page as one self-contained HTML file: style, script, charts and data are embedded, nothing is fetched.
#pragma once

#include <string>

#include "report/page/html_assets.h"
#include "report/page/page.h"

namespace amdahl {

/// Deterministic: the same page and assets give the same bytes. Error{internal} for an invalid chart.
std::string html_page(const Page& page, const HtmlAssets& assets);

}  // namespace amdahl
