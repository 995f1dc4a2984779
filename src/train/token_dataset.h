// Rows of tokens, the inputs and targets of language models.
#pragma once

#include <string>

#include "train/dataset.h"
#include "train/tokenizer.h"

namespace amdahl {

struct TokenRows {
  int64_t steps = 0;       // tokens per row
  int64_t stride = 0;      // tokens from one row to the next; 0: `steps`
  int64_t vocabulary = 0;  // of the model; 0: that of the tokens, or one more than the largest
};

/// Cuts the tokens into rows: the inputs are `steps` tokens and the targets the ones that follow each of them. Tokens
/// at the end that fill no row are left out. The classes are the vocabulary.
///
/// Error{usage}: steps or stride out of range, a row longer than the file, a vocabulary beyond 2^24 or below that of
/// the tokenizer. Error{data_corrupt}: a token beyond the vocabulary, with its position. Error{out_of_memory}.
Dataset make_token_dataset(const TokenSequence& sequence, const TokenRows& rows);

/// The tokens of a .bin file (files/token_file.h), of `width` bytes each. Errors as read_token_file.
TokenSequence load_token_file(const std::string& path, size_t width = 0);

}  // namespace amdahl
