#include "train/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "amdahl/error.h"
#include "files/text_encoding.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr std::string_view kTextBlanks = " \t\n\r\f\v";

/// Calls `visit` for every word of the text.
template <class Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  for (size_t begin = text.find_first_not_of(kTextBlanks); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kTextBlanks, begin), text.size());
    visit(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kTextBlanks, end);
  }
}

/// The words of the text, the most frequent first.
std::vector<std::string_view> words_by_frequency(std::string_view text) {
  std::unordered_map<std::string_view, int64_t> counts;
  for_each_word(text, [&](std::string_view word) { ++counts[word]; });
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string_view> words;
  for (const auto& [word, count] : sorted) words.push_back(word);
  return words;
}

}  // namespace

TokenSequence tokenize_bytes(std::string_view text, std::string origin) {
  TokenSequence sequence{std::move(origin), {}, 256, {}, 0, 1};
  sequence.tokens.reserve(text.size());
  for (const char byte : text) sequence.tokens.push_back(static_cast<unsigned char>(byte));
  return sequence;
}

TokenSequence tokenize_words(std::string_view text, std::string origin, int64_t limit) {
  if (limit < 0 || limit == 1)
    throw Error(Cause::usage, fmt::format("`vocabulary` is {}", limit), "at least 2 words, or 0 for all of the text");
  std::vector<std::string_view> words = words_by_frequency(text);
  const bool limited = limit > 0 && static_cast<int64_t>(words.size()) > limit;
  if (limited) {
    words.resize(static_cast<size_t>(limit - 1));
    if (std::find(words.begin(), words.end(), kUnknownWord) == words.end()) words.push_back(kUnknownWord);
  }
  std::unordered_map<std::string_view, uint32_t> indices;
  for (const std::string_view word : words) indices.emplace(word, static_cast<uint32_t>(indices.size()));
  TokenSequence sequence{std::move(origin), {}, static_cast<int64_t>(words.size()), {words.begin(), words.end()}, 0, 0};
  const uint32_t unknown = limited ? indices.at(kUnknownWord) : 0;
  for_each_word(text, [&](std::string_view word) {
    const auto found = indices.find(word);
    sequence.tokens.push_back(found == indices.end() ? unknown : found->second);
  });
  return sequence;
}

TokenSequence tokenize_file(const std::string& path, const std::string& tokenizer, int64_t limit) {
  if (tokenizer != "bytes" && tokenizer != "words")
    throw Error(Cause::usage, fmt::format("`tokenizer`: unknown tokenizer '{}'", tokenizer),
                choices_hint(tokenizer, {"bytes", "words"}));
  const std::string text = read_text_file(path, Cause::usage, kMostDataBytes);
  require_text(text, path);
  TokenSequence sequence = tokenizer == "bytes" ? tokenize_bytes(text, path) : tokenize_words(text, path, limit);
  if (sequence.tokens.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}: the text has no {}", path, tokenizer), "a text file");
  return sequence;
}

}  // namespace amdahl
