#include "cli/remedies.h"
#include "amdahl/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "amdahl/plan.h"
#include "cli/offers.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? "amdahl" : "amdahl " + command_words(command);
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

/// `--batch-sizes 32 64`: a list separated by blanks, of which the parser takes only the first value and rejects the
/// others.
std::optional<Error> spaced_list(const CLI::App& command, const std::vector<std::string>& words,
                                 const std::string& unknown) {
  if (is_option(unknown)) return std::nullopt;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] != unknown || !is_option(words[i - 2]) || is_option(words[i - 1])) continue;
    for (const CLI::Option* option : command.get_options()) {
      if (!option->check_name(words[i - 2]) || !offer_of(const_cast<CLI::Option&>(*option)).several) continue;
      std::string list;
      for (size_t k = i - 1; k < words.size() && !is_option(words[k]); ++k)
        for (const std::string& item : split_list(words[k]))
          if (!item.empty()) list += (list.empty() ? "" : ",") + item;
      return Error(Cause::usage, fmt::format("{}: the values of a list are joined with commas", words[i - 2]),
                   fmt::format("{} {}", words[i - 2], list));
    }
  }
  return std::nullopt;
}

/// The word that follows `unknown` and may be its value; empty without one.
std::string value_after(const std::vector<std::string>& words, const std::string& unknown) {
  const auto at = std::find(words.begin(), words.end(), unknown);
  return at == words.end() || at + 1 == words.end() || is_option(at[1]) ? "" : at[1];
}

/// `value` as an option that takes one of `offer` accepts it: of a list the first part that it knows, else the name
/// nearest to the first part, or for a plain word that is no file the first choice. Unchanged where the option takes a
/// list or another text is as good.
std::string one_value(const Offer& offer, const std::string& value) {
  const std::vector<std::string> parts = split_list(value);
  if (offer.several || offer.choices.empty() || parts.empty()) return value;
  for (const std::string& part : parts)
    if (std::find(offer.choices.begin(), offer.choices.end(), part) != offer.choices.end()) return part;
  const std::string near = nearest_name(parts.front(), offer.choices);
  const bool is_word = std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  const bool is_no_value = parts.size() > 1 || (is_word && !std::filesystem::exists(value));
  return !near.empty() ? near : is_no_value ? offer.choices.front() : value;
}

/// The option of `command` that was meant by `word` and takes `value`: the nearest one, or the next one as near as a
/// name may be if only that has a choice like the value. Empty without one.
std::string meant_option(const CLI::App& command, const std::string& word, const std::string& value) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  std::string nearest = nearest_name(word, known);
  for (std::string near = nearest; !near.empty() && !value.empty(); near = nearest_name(word, known)) {
    const Offer offer = offer_of(*const_cast<CLI::Option*>(command.get_option(near)));
    const std::vector<std::string> parts = split_list(value);
    const bool fits = !parts.empty() && !nearest_name(parts.front(), offer.choices).empty();
    if (fits || offer.files || (near == nearest && offer.choices.empty())) return near;
    std::erase(known, near);
  }
  return nearest;
}

/// Whether `--WORD` was meant as a part of a plan: --no-overlap, --recompute=block.
bool is_plan(const std::string& word) {
  try {
    parse_plan(word);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// An option and its value, with one part of the value replaced.
struct Replaced {
  std::string option, value;
};

/// `from` replaced by `to` in the words: in the value of an option, where it is the whole value or a part between
/// separators.
std::optional<Replaced> replaced(const std::vector<std::string>& words, const std::string& from,
                                 const std::string& to) {
  constexpr std::string_view kSeparators = ",=.:+@ ";
  std::string option;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string value = words[i];
    if (is_option(value)) {
      const size_t equals = std::min(value.find('='), value.size());
      option = value.substr(0, equals);
      if (equals == value.size()) continue;
      value = value.substr(equals + 1);
    }
    for (size_t at = value.find(from); at != std::string::npos && !from.empty(); at = value.find(from, at + 1)) {
      const size_t end = at + from.size();
      if ((at > 0 && kSeparators.find(value[at - 1]) == std::string_view::npos) ||
          (end < value.size() && kSeparators.find(value[end]) == std::string_view::npos))
        continue;
      return Replaced{option, value.replace(at, from.size(), to)};
    }
  }
  return std::nullopt;
}

/// The first text between single quotes.
std::string quoted(const std::string& text) {
  const size_t begin = text.find('\''), end = begin == std::string::npos ? begin : text.find('\'', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

/// The first name of "gpt2? or one of medium, gpt2" or "one of sum, prod", the remedies of choices_hint.
std::string first_choice(const std::string& remedy) {
  constexpr std::string_view kNear = "? or one of ", kFar = "one of ";
  if (const size_t near = remedy.find(kNear); near != std::string::npos) return remedy.substr(0, near);
  return remedy.starts_with(kFar) ? remedy.substr(kFar.size(), remedy.find(',') - kFar.size()) : "";
}

}  // namespace

const CLI::App& used_command(const CLI::App& app) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  return used.empty() ? app : used_command(*used.front());
}

std::string command_words(const CLI::App& command) {
  if (command.get_parent() == nullptr) return {};
  const std::string above = command_words(*command.get_parent());
  return above + (above.empty() ? "" : " ") + command.get_name();
}

Error unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::find_if(unknown.begin(), unknown.end(), is_option);
  const std::string given = option == unknown.end() ? unknown.front() : *option;  // the script of run may be before it
  if (const auto error = spaced_list(used_command(app), words, given)) return *error;
  const std::string word = given.substr(0, given.find('='));
  const CLI::App& command = used_command(app);
  const std::string called = full_name(command);
  std::vector<std::string> known;
  if (!is_option(word) && !command.get_subcommands({}).empty()) {
    for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
    const std::string near = nearest_name(word, known);
    return Error(Cause::usage, fmt::format("unknown command '{}'", word),
                 fmt::format("{} {}, or one of {}", called, near.empty() ? "--help" : near, fmt::join(known, ", ")));
  }
  const std::string all = word.size() < given.size() ? given.substr(word.size() + 1) : value_after(words, given);
  const std::string near = is_option(word) ? meant_option(command, word, all) : "";
  const std::string message = fmt::format("{} does not know '{}'", called, word);
  if (near.empty() && given.starts_with("--") && command.get_option_no_throw("--plan") && is_plan(given.substr(2)))
    return Error(Cause::usage, message, fmt::format("{} --plan {}, or {} --help", called, given.substr(2), called));
  if (near.empty()) return Error(Cause::usage, message, called + " --help");
  if (near == "--plan" && !all.empty()) {
    try {
      parse_plan(all);
    } catch (const Error& error) {
      return Error(Cause::usage, message, error.remedy());
    }
  }
  const std::string value = one_value(offer_of(*const_cast<CLI::Option*>(command.get_option(near))), all);
  return Error(Cause::usage, message,
               fmt::format("{}{}{}{}, or {} --help", near, value.empty() ? "" : " ", value,
                           value != all && all.find(',') < all.size() ? " (one value per run)" : "", called));
}

Error with_command(const Error& error, const CLI::App& app, const std::vector<std::string>& words) {
  if (error.cause() != Cause::usage) return error;
  const std::string command = full_name(used_command(app));
  std::string remedy = error.remedy();
  if (const std::string choice = first_choice(remedy); !choice.empty()) {
    const std::optional<Replaced> found = replaced(words, quoted(error.what()), choice);
    if (!found || !is_option(found->option)) return error;
    remedy = fmt::format("{} {}, or {}", found->option, found->value, remedy.substr(remedy.find("one of ")));
  }
  if (!is_option(remedy)) return error;
  return Error(error.cause(), error.what(), command + " " + remedy, error.rank());
}

}  // namespace amdahl::cli
