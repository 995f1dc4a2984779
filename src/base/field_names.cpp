#include "amdahl/error.h"

#include <algorithm>
#include <atomic>

namespace amdahl {
namespace {

std::atomic<FieldNamer> g_namer{nullptr};

bool is_name(std::string_view text) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && is_lower(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_lower(c) || c == '_' || (c >= '0' && c <= '9');
  });
}

/// The words of a text between backticks; empty when it is not a reference.
std::vector<FieldWord> words_of(std::string_view text) {
  std::vector<FieldWord> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t equals = word.find('=');
    if (!is_name(word.substr(0, equals)) || equals == word.size() - 1) return {};
    words.push_back({std::string(word.substr(0, equals))});
    if (equals != std::string_view::npos) words.back().value = std::string(word.substr(equals + 1));
    begin = end + 1;
  }
  return words;
}

}  // namespace

void set_field_namer(FieldNamer namer) { g_namer.store(namer); }

std::string named(std::string_view text) {
  const FieldNamer namer = g_namer.load();
  if (!namer) return std::string(text);
  std::string result;
  for (size_t open = text.find('`'); open != std::string_view::npos; open = text.find('`')) {
    const size_t close = text.find('`', open + 1);
    if (close == std::string_view::npos) break;
    const std::vector<FieldWord> words = words_of(text.substr(open + 1, close - open - 1));
    const std::string name = words.empty() ? std::string() : namer(words);
    // After a backtick that opens no reference, the search continues at the next one: ``links list``.
    const size_t end = name.empty() ? open + 1 : close + 1;
    result += text.substr(0, name.empty() ? end : open);
    result += name;
    text.remove_prefix(end);
  }
  return result.append(text);
}

std::string named_reference(const std::vector<FieldWord>& words) {
  const FieldNamer namer = g_namer.load();
  if (namer)
    if (std::string name = namer(words); !name.empty()) return name;
  std::string text;
  for (const FieldWord& word : words) {
    text += (text.empty() ? "" : " ") + word.name;
    if (word.value) text += "=" + *word.value;
  }
  return "`" + text + "`";
}

}  // namespace amdahl
