#include "base/nvls.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

namespace amdahl {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

/// "allreduce" for "all_reduce" and "AllReduce".
std::string letters(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalpha(static_cast<unsigned char>(c)) != 0)
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The list of NCCL_ALGO for a collective: the one after its name and a colon, else the one without a name.
std::optional<std::string_view> algorithms_for(std::string_view value, const std::string& collective) {
  std::optional<std::string_view> of_all, of_it;
  for (const std::string_view part : split(value, ';')) {
    const size_t colon = part.find(':');
    if (colon == std::string_view::npos)
      of_all = part;
    else if (letters(part.substr(0, colon)) == collective)
      of_it = part.substr(colon + 1);
  }
  return of_it ? of_it : of_all;
}

/// Whether a list allows NVLS or NVLSTree; a list after ^ excludes its entries.
bool allows_nvls(std::string_view list) {
  const bool excluded = list.starts_with('^');
  if (excluded) list.remove_prefix(1);
  int named = 0;
  for (const std::string_view name : split(list, ','))
    if (const std::string plain = letters(name); plain == "nvls" || plain == "nvlstree") ++named;
  return excluded ? named < 2 : named > 0;
}

}  // namespace

std::string nvls_refusal(const std::map<std::string, std::string>& variables, std::string_view collective,
                         bool symmetric_windows) {
  constexpr const char *kEnable = "NCCL_NVLS_ENABLE", *kAlgorithm = "NCCL_ALGO";
  if (const auto enable = variables.find(kEnable); enable != variables.end() && enable->second == "0")
    return std::string(kEnable) + "=0";
  const auto algorithm = variables.find(kAlgorithm);
  if (symmetric_windows || algorithm == variables.end()) return {};
  const auto list = algorithms_for(algorithm->second, letters(collective));
  return !list || allows_nvls(*list) ? std::string() : std::string(kAlgorithm) + "=" + algorithm->second;
}

}  // namespace amdahl
