// Turns a text into tokens: indices of a vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Tokens in the order of their file.
struct TokenSequence {
  std::string origin;  // name of the file, for errors
  std::vector<uint32_t> tokens;
  int64_t vocabulary = 0;          // number of different tokens that there can be; 0: the file does not say
  std::vector<std::string> words;  // [vocabulary] of a tokenizer of words; empty otherwise
  size_t first_byte = 0;           // offset of the first token in the file
  size_t token_bytes = 0;          // bytes per token in the file; 0: they differ
};

/// The word that stands for all words outside of a limited vocabulary.
inline constexpr std::string_view kUnknownWord = "<unk>";

/// A token per byte: vocabulary 256.
TokenSequence tokenize_bytes(std::string_view text, std::string origin);
/// A token per word; words are separated by ASCII blanks. The vocabulary holds the words of the text, the most frequent
/// first, words of equal frequency in the order of their bytes. With more than `limit` words, the last place is that of
/// `<unk>`, to which the words beyond it belong; 0: no limit. Error{usage} for a limit of 1 or below 0.
TokenSequence tokenize_words(std::string_view text, std::string origin, int64_t limit);

/// Reads a text file, which may be gzip-compressed, and tokenizes it with the tokenizer of that name: "bytes" or
/// "words". Error{usage} for another name and a file that cannot be read, Error{data_corrupt} for an empty text and one
/// that is not UTF-8.
TokenSequence tokenize_file(const std::string& path, const std::string& tokenizer, int64_t limit);

}  // namespace amdahl
