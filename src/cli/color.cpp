#include "cli/color.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "cli/output.h"

namespace amdahl::cli {
namespace {

enum class When { automatic, always, never };
When g_when = When::automatic;  // from the command line, set before anything is printed

// Escape sequences of the eight standard colours, which every theme keeps readable.
constexpr const char *kRed = "\033[31m", *kGreen = "\033[32m", *kYellow = "\033[33m", *kCyan = "\033[36m",
                     *kReset = "\033[0m";

struct Word {
  std::string_view text;
  const char* color;
  bool at_start = false;  // only at the beginning of a line
};

/// Keywords of results for good, bad and undecided.
constexpr Word kWords[] = {
    {"FASTER", kGreen},     {"SLOWER", kRed},        {"UNCLEAR", kYellow},       {"SAME", kCyan},
    {"beneficial", kGreen}, {"FAILED", kRed},        {"CORRUPT", kRed},          {"SLOW", kRed},
    {"FAULT", kRed},        {"PROBLEMS", kRed},      {"NOTICE", kCyan},          {"WARNING", kYellow},
    {"fault", kRed, true},  {"notice", kCyan, true}, {"warning", kYellow, true}, {"waived", kYellow, true},
    {"error", kRed, true},
};

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

/// The keyword at position `at` if it is a whole word; nullptr otherwise.
const Word* word_at(std::string_view line, size_t at) {
  if (at > 0 && is_letter(line[at - 1])) return nullptr;
  for (const Word& word : kWords) {
    const size_t end = at + word.text.size();
    if (word.at_start && line.find_first_not_of(' ') != at) continue;
    if (line.substr(at, word.text.size()) == word.text && (end >= line.size() || !is_letter(line[end]))) return &word;
  }
  return nullptr;
}

}  // namespace

void choose_color(const std::string& when) {
  g_when = when == "always" ? When::always : when == "never" ? When::never : When::automatic;
}

bool has_color(std::FILE* to) {
  if (g_when != When::automatic) return g_when == When::always;
  const char *none = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  if (none && *none) return false;
  return term && std::strcmp(term, "dumb") != 0 && isatty(fileno(to));
}

std::string colored(std::string_view line) {
  std::string result;
  for (size_t i = 0; i < line.size();) {
    const Word* word = word_at(line, i);
    const size_t length = word ? word->text.size() : 1;
    const std::string_view part = line.substr(i, length);
    result += word ? fmt::format("{}{}{}", word->color, part, kReset) : std::string(part);
    i += length;
  }
  return result;
}

// Not broken into lines, so that the command that it proposes can be copied.
void show_error(const Error& error) {
  const std::string line = printable(error.line());
  put(stderr, (has_color(stderr) ? colored(line) : line) + "\n");
}

}  // namespace amdahl::cli
