// Assets embedded in a page: style, script, and the chart library. The build writes them into sources
// (cmake/embed_text.cmake).
#pragma once

#include <string_view>

namespace amdahl {

/// A text compiled into the program. `sha256` is in lower-case hex; the page's content security policy admits only this
/// hash.
struct EmbeddedText {
  std::string_view text;
  std::string_view sha256;
};

struct HtmlAssets {
  EmbeddedText style;
  EmbeddedText script;
  EmbeddedText bundle;              // Vega, Vega-Lite and Vega-Embed; empty if this build lacks them
  std::string_view bundle_missing;  // why the bundle is missing and how to get it; empty if present
};

/// The assets of this build.
HtmlAssets html_assets();

}  // namespace amdahl
