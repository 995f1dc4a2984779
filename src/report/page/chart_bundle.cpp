// The chart bundle of this build.
#include "report/page/html_assets.h"

namespace amdahl {

extern const EmbeddedText kPageStyle, kPageScript, kChartBundle;

HtmlAssets html_assets() { return {kPageStyle, kPageScript, kChartBundle, {}}; }

}  // namespace amdahl
