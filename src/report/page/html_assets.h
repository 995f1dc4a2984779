// What a page carries besides its content: style, script, and the library that draws charts. Written into sources by
// the build (cmake/embed_text.cmake).
#pragma once

#include <string_view>

namespace amdahl {

/// A text inside the program. The hash, lower-case hex, is what the page's content policy admits.
struct EmbeddedText {
  std::string_view text;
  std::string_view sha256;
};

struct HtmlAssets {
  EmbeddedText style;
  EmbeddedText script;
  EmbeddedText bundle;              // Vega, Vega-Lite and Vega-Embed; empty when this build has none
  std::string_view bundle_missing;  // why and how to get it; empty when there is one
};

/// Those of this build.
HtmlAssets html_assets();

}  // namespace amdahl
