#include "report/common/record_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "spec/run_folder.h"

namespace amdahl {

Error damaged_record(const Record& record, const std::string& problem) {
  const std::string place = record.source.empty() ? "" : record.source + ": ";
  return {Cause::store_corrupt, fmt::format("{}a {} record {}", place, printable(record.kind, 40), problem),
          kDamagedLineRemedy};
}

void require_speed(const Record& record, const std::string& series, double sample) {
  constexpr double kSmallest = 1e-100;  // ratios of such samples are still finite
  if (sample >= kSmallest && std::isfinite(sample)) return;
  throw damaged_record(record, fmt::format("has {} in '{}', which is positive when measured", sample, series));
}

std::string device_names_of(const Provenance& provenance) {
  const std::vector<std::string> numbered = numbered_devices(provenance);
  std::set<std::string> names(numbered.begin(), numbered.end());
  for (const char* fact : {"device", "devices"})
    if (const auto found = provenance.facts.find(fact); found != provenance.facts.end()) names.insert(found->second);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace amdahl
