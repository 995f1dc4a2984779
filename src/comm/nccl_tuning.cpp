#include "comm/nccl_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

namespace amdahl {
namespace {

// Numbers logged by versions before 2.24, from NCCL's device.h and nccl_tuner.h.
constexpr std::array<std::string_view, 7> kAlgorithms{"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                      "NVLS_TREE", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "SIMPLE"};

/// The word after `label`; empty without it.
std::string_view word_after(std::string_view line, std::string_view label) {
  const size_t at = line.find(label);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + label.size());
  return line.substr(0, line.find_first_of(" \t\r"));
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

/// A number such as "2" is looked up in the table, a name is converted to upper case.
template <size_t N>
std::string named(std::string_view word, const std::array<std::string_view, N>& names) {
  if (const auto index = number(word); index && *index >= 0 && *index < static_cast<int64_t>(N))
    return std::string(names[static_cast<size_t>(*index)]);
  std::string text(word);
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string letters(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (std::isalpha(static_cast<unsigned char>(c)))
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The text before "N Bytes": "AllReduce: ", "AllReduce [Symmetric]: " or, in old versions, "NCCL INFO ".
std::string collective_before(std::string_view head) {
  const size_t colon = head.find_last_not_of(' ');
  if (colon == std::string_view::npos || head[colon] != ':') return {};
  head = head.substr(0, colon);
  if (const size_t bracket = head.rfind(" ["); bracket != std::string_view::npos && head.ends_with(']'))
    head = head.substr(0, bracket);
  const size_t space = head.find_last_of(' ');
  return letters(head.substr(space == std::string_view::npos ? 0 : space + 1));
}

/// Number of channels: 4 for "{Lo..Hi}={0..3}".
int channels_of(std::string_view line) {
  if (const auto count = number(word_after(line, "nchannels "))) return static_cast<int>(*count);
  std::string_view range = word_after(line, "channel{Lo..Hi}={");
  const auto low = number(range);
  const size_t dots = range.find("..");
  if (!low || dots == std::string_view::npos) return 0;
  const auto high = number(range.substr(dots + 2));
  return high && *high >= *low ? static_cast<int>(*high - *low + 1) : 0;
}

std::optional<NcclChoice> parse_line(std::string_view line) {
  constexpr std::string_view kMark = " Bytes -> ";
  const size_t mark = line.find(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(0, mark);
  const size_t digits = before.find_last_not_of("0123456789");
  const size_t start = digits == std::string_view::npos ? 0 : digits + 1;
  const auto bytes = number(before.substr(start));
  if (!bytes) return std::nullopt;
  NcclChoice choice{collective_before(before.substr(0, start)), *bytes, "", channels_of(line), false};
  const std::string_view rest = line.substr(mark + kMark.size());
  if (const std::string_view kernel = word_after(rest, "Kernel "); !kernel.empty()) {
    choice.method = kernel;
    choice.symmetric = true;
    return choice;
  }
  const std::string_view algorithm = word_after(rest, "Algo "), protocol = word_after(rest, "proto ");
  if (algorithm.empty() || protocol.empty()) return std::nullopt;
  choice.method = named(algorithm, kAlgorithms) + ' ' + named(protocol, kProtocols);
  return choice;
}

}  // namespace

std::vector<NcclChoice> parse_nccl_choices(std::string_view output) {
  std::vector<NcclChoice> choices;
  while (!output.empty()) {
    const size_t end = std::min(output.find('\n'), output.size());
    if (const auto choice = parse_line(output.substr(0, end))) choices.push_back(*choice);
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return choices;
}

std::string describe_nccl_choice(const std::vector<NcclChoice>& choices, const NcclCall& call) {
  const std::string collective = letters(call.collective);
  const bool shared = collective == "allgather" || collective == "reducescatter";
  std::vector<std::string> methods;
  for (const NcclChoice& choice : choices) {
    const int64_t bytes = choice.symmetric && shared ? choice.bytes * call.ranks : choice.bytes;
    if (bytes != call.bytes || (!choice.collective.empty() && choice.collective != collective)) continue;
    const std::string method =
        choice.channels > 0 ? fmt::format("{} x{}", choice.method, choice.channels) : choice.method;
    if (std::find(methods.begin(), methods.end(), method) == methods.end()) methods.push_back(method);
  }
  return fmt::format("{}", fmt::join(methods, " / "));
}

}  // namespace amdahl
