#include "lab/report_pages.h"

#include "lab/study_pages.h"

namespace amdahl {

const std::vector<PageKind>& page_kinds() {
  static const std::vector<PageKind> kinds{
      {"study", study_pages},
  };
  return kinds;
}

}  // namespace amdahl
