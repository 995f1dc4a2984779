#include "amdahl/fabric.h"

namespace amdahl {

std::string_view to_string(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::notice:
      return "notice";
    case Finding::Severity::warning:
      return "warning";
    case Finding::Severity::fault:
      break;
  }
  return "fault";
}

}  // namespace amdahl
