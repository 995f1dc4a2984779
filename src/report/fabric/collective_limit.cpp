#include "report/fabric/collective_limit.h"

#include <fmt/format.h>

#include <map>

#include "base/number_text.h"
#include "base/nvls.h"
#include "base/record_values.h"

namespace amdahl {
namespace {

/// The environment variables of the run: facts "env.NAME".
std::map<std::string, std::string> variables_of(const Provenance& provenance) {
  constexpr std::string_view kPrefix = "env.";
  std::map<std::string, std::string> variables;
  for (auto fact = provenance.facts.lower_bound(std::string(kPrefix));
       fact != provenance.facts.end() && fact->first.starts_with(kPrefix); ++fact)
    variables.emplace(fact->first.substr(kPrefix.size()), fact->second);
  return variables;
}

}  // namespace

std::string limit_refusal(const Record& record) {
  const auto collective = axis<std::string>(record, "collective", "");
  if (!record.value("peak") || record.value("link_limit") || collective != "all_reduce" ||
      axis<int64_t>(record, "devices", 0) < 3)  // with two devices both limits are equal
    return {};
  const bool windows = axis<std::string>(record, "transport", "").find("symmetric") != std::string::npos;
  const std::string refusal = nvls_refusal(variables_of(record.provenance), collective, windows);
  if (refusal.empty()) return {};
  return fmt::format("its limit may be that of reduction in the switches (NVLS), which was off: {}", refusal);
}

std::optional<CollectiveLimit> collective_limit(const Record& record) {
  const double peak = record.value("peak").value_or(0), links = record.value("link_limit").value_or(0);
  if (!(peak > 0) || !limit_refusal(record).empty()) return std::nullopt;
  return CollectiveLimit{peak, links > 0 && peak > links};
}

std::string limit_text(const CollectiveLimit& limit) {
  return fmt::format("physical limit{}, {} GB/s", limit.in_switch ? " with NVLS" : "", format_number(limit.gbps));
}

}  // namespace amdahl
