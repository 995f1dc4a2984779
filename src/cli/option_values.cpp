#include "cli/option_values.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace amdahl::cli {
namespace {

template <class T>
std::string refuse_unless_whole(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && text == std::to_string(value)) return {};
  return fmt::format("'{}' is not a whole number{}", text,
                     error == std::errc::result_out_of_range ? " of 64 bits" : " written in decimal");
}

}  // namespace

const CLI::Validator kWhole(refuse_unless_whole<int64_t>, "", "whole");
const CLI::Validator kNatural(refuse_unless_whole<uint64_t>, "", "natural");

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items;
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == 0) items.emplace_back();
    if (list[i] == '"')
      quoted = !quoted;
    else if (list[i] == ',' && !quoted)
      items.emplace_back();
    else
      items.back() += list[i];
  }
  return items;
}

std::vector<int> parse_gpus(const std::string& list) {
  std::vector<int> gpus;
  if (list.empty()) return gpus;
  for (const int64_t gpu : parse_count_list(list, "--gpus", 0)) gpus.push_back(static_cast<int>(gpu));
  return gpus;
}

void require_one_of(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, int>> choices;
  for (const std::string& name : names) choices.emplace_back(name, 0);
  one_of<int>(option, text, choices);
}

void add_talk(CLI::App* app, Talk& talk) {
  app->add_flag("--json", talk.json, "Machine-readable result on stdout");
  app->add_flag("--quiet,-q", talk.quiet, "No plan and no progress");
}

void use_machine(const std::string& file, MachineSpec& machine) {
  if (file.empty()) return;
  machine = load_machine(file);
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty())
      fmt::print(stderr, "warning: {} to {} is quarantined: {}\n", link.source, link.destination, link.quarantine);
  for (const auto& [name, value] : safe_environment(machine)) {
    setenv(name.c_str(), value.c_str(), 1);
    fmt::print(stderr, "warning: {}={} is set, and peers keep to their own memory\n", name, value);
  }
}

void end_at_once(const Error& error) {
  std::fprintf(stderr, "%s\n", error.line().c_str());
  const bool asked = error.cause() == Cause::interrupted && signal_exit_code() != 0;
  std::_Exit(asked ? signal_exit_code() : exit_code(error.cause()));
}

std::string default_run_dir(const char* verb) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("results/{}-{}", verb, stamp);
}

}  // namespace amdahl::cli
