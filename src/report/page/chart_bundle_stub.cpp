// Built without the chart bundle: pages have tables instead of charts, and say why.
#include "report/page/html_assets.h"

namespace amdahl {

extern const EmbeddedText kPageStyle, kPageScript;

HtmlAssets html_assets() {
  return {kPageStyle,
          kPageScript,
          {},
          "this amdahl was built without the chart library; scripts/install_deps.sh gets it (vl-convert-python), then "
          "build again"};
}

}  // namespace amdahl
