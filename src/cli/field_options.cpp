#include "cli/field_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "amdahl/plan.h"

namespace amdahl::cli {
namespace {

/// "batch_sizes" to "--batch-sizes".
std::string option_like(std::string_view field) {
  std::string option = "--" + std::string(field);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

const CommandNode* find_command(const CommandNode& root, const std::string& command) {
  for (const CommandNode* node : all_commands(root))
    if (node->name() == root.name() + " " + command) return node;
  return nullptr;
}

bool has_option(const CommandNode& command, const std::string& name) {
  return std::any_of(command.options.begin(), command.options.end(), [&](const OptionNode& option) {
    return !option.positional && std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  });
}

/// An option with its value, if any.
struct OptionWords {
  std::string option, value;
};

/// The part of a plan's text: "m8", "1f1b", "recompute=block"; without a value "mN", "recompute=VALUE".
std::string plan_part(const PlanField& field, const FieldWord& word) {
  if (std::holds_alternative<bool PlanOptions::*>(field.member)) return std::string(field.word);
  std::string value = word.value.value_or(field.choices.empty() ? "N" : "VALUE");
  int64_t number = 0;
  const char* const end = value.data() + value.size();
  if (std::from_chars(value.data(), end, number).ptr == end)
    value = fmt::format("{}", static_cast<double>(number) / static_cast<double>(field.option_unit));
  if (field.is_bare) return value;
  return field.prefix.empty() ? fmt::format("{}={}", field.word, value) : fmt::format("{}{}", field.prefix, value);
}

OptionWords words_in(const std::string& command, const FieldWord& word, bool names_command) {
  const std::vector<FieldOption>& rows = field_options();
  const auto row_of = [&](std::string_view of) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const FieldOption& row) { return row.command == of && row.field == word.name; });
  };
  auto row = row_of(command);
  if (row == rows.end())
    for (const PlanField& field : plan_fields())
      if (field.name == word.name) return {"--plan", plan_part(field, word)};
  if (row == rows.end()) row = row_of("");
  if (row == rows.end()) return {option_like(word.name), word.value.value_or("")};
  std::string option(names_command && !row->in_command.empty() ? row->in_command : row->option);
  const size_t blank = std::min(option.find(' '), option.size());
  std::string value = option.substr(std::min(blank + 1, option.size()));  // the part of the option's value
  if (word.value) value += (value.empty() ? "" : "=") + *word.value;
  return {option.substr(0, blank), value};
}

/// Number of leading words that name a command; the last word is always a field.
size_t verb_size(const std::vector<FieldWord>& words, const CommandNode& root) {
  size_t size = 0;
  std::string name;
  for (size_t i = 0; i + 1 < words.size() && !words[i].value; ++i) {
    name += (i ? " " : "") + words[i].name;
    if (find_command(root, name)) size = i + 1;
  }
  return size;
}

/// Tables of the namer: written before threads start and never freed, because errors may be created until exit.
struct Names {
  CommandNode root;
  std::string command;
};
Names* g_names = nullptr;

}  // namespace

const std::vector<FieldOption>& field_options() {
  static const std::vector<FieldOption> rows{
      {"", "assignments", "--nccl"},
      {"", "bin_columns", "--data-options bin-columns"},
      {"", "bin_type", "--data-options bin-type"},
      {"", "buffer_bytes", "--buffer-size"},
      {"", "collectives", "--collective"},
      {"", "comm_table", "--comm"},
      {"", "data_path", "--data"},
      {"", "delimiter", "--data-options delimiter"},
      {"", "dtypes", "--datatype"},
      {"", "end_token", "--data-options end-token"},
      {"", "evidence", "--from"},
      {"", "fail_on_regression_percent", "--fail-on-regression"},
      {"", "gemm", "--onesided gemm"},
      {"", "global_batch", "--batch-size"},
      {"", "header", "--data-options header"},
      {"", "ignored", "--data-options ignore"},
      {"", "injected_faults", "--inject-faults"},
      {"", "inputs", "--input"},
      {"", "iterations", "--samples"},
      {"", "labels_path", "--data-options labels"},
      {"", "limit_sms", "--device-speeds"},
      {"", "locality", "--onesided locality"},
      {"", "minimum", "--min"},
      {"", "missing", "--data-options missing"},
      {"", "missing_values", "--data-options missing-values"},
      {"", "norm", "--onesided norm"},
      {"", "num_parameters", "--params"},
      {"", "num_targets", "--targets"},
      {"", "ops", "--op"},
      {"", "pairs", "--pair"},
      {"", "patterns", "--onesided patterns"},
      {"", "plans", "--plan"},
      {"", "policies", "--policy"},
      {"", "policy", "--advise"},
      {"", "rate_hz", "--rate"},
      {"", "registration", "--local-register"},
      {"", "regression", "--data-options regression"},
      {"", "repeat", "--processes"},
      {"", "size", "--grid"},
      {"", "strategy", "--plan"},
      {"", "streams", "--shape"},
      {"", "stride", "--data-options stride"},
      {"", "targets", "--target"},
      {"", "tests", "--test"},
      {"", "time_column", "--data-options time-column"},
      {"", "timeout_seconds", "--timeout"},
      {"", "tokenizer", "--data-options tokenizer"},
      {"", "trace_cell", "--trace"},
      {"", "trace_steps", "--trace steps"},
      {"", "transport_seconds", "--transport-timeout"},
      {"", "transports", "--arena"},
      {"", "type", "--dtype"},
      {"", "validation_fraction", "--validation"},
      {"", "virtual_devices", "--virtual"},
      {"", "vocabulary", "--data-options vocabulary"},
      {"", "window", "--data-options window"},
      {"links", "tests", "--test", "-t"},
      {"plan", "iterations", "--validate"},
      {"report", "devices", "--assume-devices"},
      {"sensor bench", "targets", "--targets"},
  };
  return rows;
}

std::string option_words(const std::vector<FieldWord>& words, const CommandNode& root, const std::string& command) {
  const size_t verb = verb_size(words, root);
  std::string name;
  for (size_t i = 0; i < verb; ++i) name += (i ? " " : "") + words[i].name;
  std::string text = verb > 0 ? root.name() + " " + name : "";
  const std::vector<const CommandNode*> commands =
      verb > 0 ? std::vector<const CommandNode*>{find_command(root, name)} : all_commands(root);
  std::string last;  // parts of a plan are joined
  for (size_t i = verb; i < words.size(); ++i) {
    const auto [option, value] = words_in(verb > 0 ? name : command, words[i], verb > 0);
    if (std::none_of(commands.begin(), commands.end(),
                     [&, option = option](const CommandNode* node) { return has_option(*node, option); }))
      return {};
    const bool goes_on = option == "--plan" && i > verb && last == option && !value.empty();
    text += goes_on ? "," + value : (text.empty() ? "" : " ") + option + (value.empty() ? "" : " " + value);
    last = option;
  }
  return text;
}

void name_fields(CommandNode root) {
  delete g_names;
  g_names = new Names{std::move(root), {}};
  set_field_namer(
      [](const std::vector<FieldWord>& words) { return option_words(words, g_names->root, g_names->command); });
}

void name_fields_of(const std::string& command) {
  if (g_names) g_names->command = command;
}

}  // namespace amdahl::cli
