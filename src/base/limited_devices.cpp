#include "base/limited_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "amdahl/error.h"

namespace amdahl {
namespace {

using Facts = std::map<std::string, std::string>;

constexpr std::string_view kDevice = "device.", kLimit = "held_back.", kEmulated = ", emulated";
constexpr std::string_view kVirtual = "CPU virtual device ";
constexpr size_t kMostDigits = 6;

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The fraction in a fact "held_back.1"; 1 when it has none.
double fraction_of(const std::string& text) {
  char* end = nullptr;
  const double fraction = std::strtod(text.c_str(), &end);
  return end != text.c_str() && fraction > 0 && fraction < 1 ? fraction : 1;
}

int count_in(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() || !is_number(found->second) ? 0 : std::atoi(found->second.c_str());
}

/// Multiprocessors of the whole GPU; when not recorded, those of another GPU with that name. 0: unknown.
int whole_sm_count(const Facts& facts, const std::string& device, const std::string& name) {
  const int recorded = count_in(facts, device + ".whole_sm_count");
  if (recorded > 0) return recorded;
  int most = 0;
  for (const auto& [fact, value] : facts)
    if (value == name && fact.starts_with(kDevice) &&
        !facts.contains(std::string(kLimit) + fact.substr(kDevice.size())))
      most = std::max(most, count_in(facts, fact + ".sm_count"));
  return most;
}

std::string limited_name(const Facts& facts, const std::string& device, const std::string& name, double fraction) {
  const int sms = count_in(facts, device + ".sm_count"), whole = whole_sm_count(facts, device, name);
  if (sms > 0 && whole > 0) return fmt::format("{}, {} of {} SMs{}", name, sms, whole, kEmulated);
  if (sms > 0) return fmt::format("{}, limited to {} SMs{}", name, sms, kEmulated);
  return fmt::format("{}, {:g} % of its speed{}", name, 100 * fraction, kEmulated);
}

/// "CPU virtual device, 50 % of its speed" for "CPU virtual device 1, 50 % of its speed".
std::string without_number(const std::string& name) {
  if (!name.starts_with(kVirtual)) return name;
  const size_t end = std::min(name.find_first_not_of("0123456789", kVirtual.size()), name.size());
  return name.substr(0, kVirtual.size() - 1) + name.substr(end);
}

}  // namespace

void limit_devices(Provenance& provenance, const std::vector<DeviceSpec>& devices,
                   const std::vector<double>& fractions) {
  for (size_t i = 0; i < std::min(devices.size(), fractions.size()); ++i)
    if (fractions[i] < 1)
      provenance.facts[fmt::format("{}{}", kLimit, devices[i].index)] = fmt::format("{}", fractions[i]);
  name_limited_devices(provenance);
}

void name_limited_devices(Provenance& provenance) {
  Facts& facts = provenance.facts;
  const Facts before = facts;
  for (auto limit = before.lower_bound(std::string(kLimit)); limit != before.end() && limit->first.starts_with(kLimit);
       ++limit) {
    const double fraction = fraction_of(limit->second);
    const auto device = facts.find(fmt::format("{}{}", kDevice, limit->first.substr(kLimit.size())));
    if (fraction == 1 || device == facts.end() || device->second.ends_with(kEmulated)) continue;
    device->second = limited_name(before, device->first, device->second, fraction);
  }
}

Origin origin_of_devices(const Provenance& provenance) {
  for (const auto& [fact, value] : provenance.facts)
    if (fact.starts_with(kLimit) && fraction_of(value) < 1) return Origin::emulated;
  return Origin::measured;
}

std::vector<std::string> numbered_devices(const Provenance& provenance) {
  constexpr std::string_view kName = ".name";
  std::map<int, std::string> by_index;
  for (const auto& [fact, value] : provenance.facts) {
    if (!fact.starts_with(kDevice)) continue;
    std::string_view index = std::string_view(fact).substr(kDevice.size());
    if (index.ends_with(kName)) index.remove_suffix(kName.size());
    if (is_number(index)) by_index.emplace(std::atoi(std::string(index).c_str()), without_number(value));
  }
  std::vector<std::string> names;
  for (const auto& [index, name] : by_index) names.push_back(name);
  return names;
}

std::vector<std::string> first_devices(const Provenance& provenance, int64_t most) {
  std::vector<std::string> names = numbered_devices(provenance);
  names.resize(std::min(names.size(), static_cast<size_t>(std::max<int64_t>(most, 0))));
  return names;
}

std::string counted_devices(const std::vector<std::string>& names, std::string_view times) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& name : names) {
    const auto same =
        std::find_if(counts.begin(), counts.end(), [&](const auto& count) { return count.first == name; });
    if (same == counts.end())
      counts.emplace_back(name, 1);
    else
      ++same->second;
  }
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " + ", count, times, printable(name, 80));
  return text;
}

}  // namespace amdahl
