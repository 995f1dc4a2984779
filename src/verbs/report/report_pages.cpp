#include "verbs/report/report_pages.h"

#include "verbs/fabric/fabric_pages.h"
#include "verbs/training/study_pages.h"

namespace amdahl {

const std::vector<PageKind>& page_kinds() {
  static const std::vector<PageKind> kinds{
      {"doctor", doctor_pages},
      {"study", study_pages},
      {"links", links_pages},
      {"collectives", collectives_pages},
      {"arena", arena_pages},
      {"onesided", onesided_pages},
      {"sensor", sensor_pages},
      {"train", training_pages},
      {"plan-verification", verification_pages},
      {"bench", bench_pages},
  };
  return kinds;
}

}  // namespace amdahl
