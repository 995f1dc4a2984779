// Token files, tokenizers and rows of tokens.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "errors.h"
#include "files/token_file.h"
#include "train/token_dataset.h"

namespace amdahl {
namespace {

std::string bytes_of(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint16_t)};
}

std::string with_header(const std::vector<uint16_t>& tokens, int32_t magic = 20240520, int32_t version = 1,
                        int32_t extra = 0) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens.size()) + extra;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) + bytes_of(tokens);
}

TokenSequence sequence_of(std::vector<uint32_t> tokens) { return {"shard.bin", std::move(tokens), 0, {}, 1024, 2}; }

void expect_words(const Error& error, Cause cause, const std::string& words) {
  EXPECT_EQ(error.cause(), cause) << error.line();
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << " in " << error.line();
  EXPECT_FALSE(error.remedy().empty()) << error.line();
}

TEST(TokenFiles, AreReadWithAndWithoutHeader) {
  const std::vector<uint16_t> tokens{50256, 1, 0, 65535};
  const TokenFile headed = parse_token_file(with_header(tokens), "a.bin"),
                  raw = parse_token_file(bytes_of(tokens), "b");
  EXPECT_EQ(headed.tokens, tokens);
  EXPECT_EQ(headed.header_bytes, 1024u);
  EXPECT_EQ(raw.tokens, tokens);
  EXPECT_EQ(raw.header_bytes, 0u);
}

TEST(TokenFiles, AreRefusedWithTheirNameAndPosition) {
  const auto refused = [](const std::string& bytes) { return error_of([&] { parse_token_file(bytes, "x.bin"); }); };
  expect_words(refused(""), Cause::data_corrupt, "x.bin: the file is empty");
  expect_words(refused("abc"), Cause::data_corrupt, "3 bytes are half a token too many");
  expect_words(refused(with_header({1, 2}).substr(0, 1000)), Cause::data_corrupt, "byte 1000: the file is cut off");
  expect_words(refused(with_header({1, 2}, 20240520, 2)), Cause::data_corrupt, "byte 4: version 2");
  expect_words(refused(with_header({1, 2}, 20240520, 1, 1)), Cause::data_corrupt,
               "byte 8: the header has 3 tokens, and 4 bytes follow it");
  expect_words(refused(with_header({1, 2}, 20240520, 1, -2)), Cause::data_corrupt, "byte 8: the header has 0 tokens");
  EXPECT_EQ(parse_token_file(with_header({1, 2}, 7), "x").tokens.size(), 514u);  // another first number: no header
}

TEST(Tokenizers, BytesAreTheirOwnTokens) {
  const TokenSequence sequence = tokenize_bytes("a\xc3\xa9\n", "t");
  EXPECT_EQ(sequence.tokens, (std::vector<uint32_t>{'a', 0xc3, 0xa9, '\n'}));
  EXPECT_EQ(sequence.vocabulary, 256);
}

TEST(Tokenizers, WordsAreSortedByCountThenText) {
  const TokenSequence sequence = tokenize_words(" b a\tc b\n\nd  c b", "t", 0);
  EXPECT_EQ(sequence.words, (std::vector<std::string>{"b", "c", "a", "d"}));
  EXPECT_EQ(sequence.vocabulary, 4);
  EXPECT_EQ(sequence.tokens, (std::vector<uint32_t>{0, 2, 1, 0, 3, 1, 0}));
}

TEST(Tokenizers, WordsBeyondTheLimitAreUnknown) {
  const TokenSequence sequence = tokenize_words("b a c b d c b", "t", 3);
  EXPECT_EQ(sequence.words, (std::vector<std::string>{"b", "c", "<unk>"}));
  EXPECT_EQ(sequence.tokens, (std::vector<uint32_t>{0, 2, 1, 0, 2, 1, 0}));
  EXPECT_EQ(tokenize_words("b a c", "t", 3).words, (std::vector<std::string>{"a", "b", "c"}));  // all of them fit
  // A text whose rare words were replaced before: its own word is the same one.
  const TokenSequence replaced = tokenize_words("<unk> <unk> a a b c", "t", 3);
  EXPECT_EQ(replaced.words, (std::vector<std::string>{"<unk>", "a"}));
  EXPECT_EQ(replaced.tokens, (std::vector<uint32_t>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(error_of([] { tokenize_words("a", "t", 1); }).cause(), Cause::usage);
}

TEST(Tokenizers, ReadTheShippedText) {
  const std::string path = AMDAHL_SOURCE_DIR "/data/gpl-3.0.txt";
  EXPECT_EQ(tokenize_file(path, "bytes", 0).tokens.size(), 35'149u);
  const TokenSequence words = tokenize_file(path, "words", 0);
  EXPECT_EQ(words.tokens.size(), 5'644u);
  EXPECT_EQ(words.vocabulary, 1'559);
  std::map<uint32_t, int> counts;
  for (const uint32_t token : words.tokens) ++counts[token];
  for (uint32_t word = 1; word < 1'559; ++word) {
    ASSERT_LE(counts[word], counts[word - 1]);
    if (counts[word] == counts[word - 1]) {
      ASSERT_LT(words.words[word - 1], words.words[word]);
    }
  }
  EXPECT_EQ(tokenize_file(path, "words", 500).vocabulary, 500);
  expect_words(error_of([&] { tokenize_file(path, "byte", 0); }), Cause::usage, "'byte'");
  expect_words(error_of([&] { tokenize_file("none.txt", "bytes", 0); }), Cause::usage, "none.txt");
}

TEST(TokenRowsOf, AreInputsAndTheTokensAfterThem) {
  const Dataset data = make_token_dataset(sequence_of({9, 8, 7, 6, 5, 4, 3, 2, 1}), {.steps = 3});
  EXPECT_EQ(data.name, "shard");
  EXPECT_EQ(data.num_rows, 2);  // of 9 tokens: rows of 4 that begin at 0 and 3
  EXPECT_EQ(data.input_shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(data.targets_per_row, 3);
  EXPECT_EQ(data.target_floats(), 3);
  EXPECT_EQ(data.features, (std::vector<float>{9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(data.targets, (std::vector<float>{8, 7, 6, 5, 4, 3}));
  EXPECT_EQ(data.vocabulary, 10);
  EXPECT_EQ(data.output_width, 10);
  EXPECT_EQ(data.loss, LossKind::softmax_cross_entropy);
  EXPECT_EQ(data.overlap, 0);
}

TEST(TokenRowsOf, StrideMakesThemOverlap) {
  const Dataset data = make_token_dataset(sequence_of({0, 1, 2, 3, 4, 5}), {.steps = 3, .stride = 1, .vocabulary = 64});
  EXPECT_EQ(data.num_rows, 3);
  EXPECT_EQ(data.features, (std::vector<float>{0, 1, 2, 1, 2, 3, 2, 3, 4}));
  EXPECT_EQ(data.targets, (std::vector<float>{1, 2, 3, 2, 3, 4, 3, 4, 5}));
  EXPECT_EQ(data.overlap, 2);
  EXPECT_EQ(data.vocabulary, 64);
  EXPECT_EQ(make_token_dataset(sequence_of({0, 1, 2, 3}), {.steps = 3}).num_rows, 1);
}

TEST(TokenRowsOf, RefuseATokenBeyondTheVocabularyWithItsPosition) {
  const auto refused = [](const TokenSequence& sequence, const TokenRows& rows) {
    return error_of([&] { make_token_dataset(sequence, rows); });
  };
  expect_words(refused(sequence_of({1, 50257, 2}), {.steps = 1, .vocabulary = 50257}), Cause::data_corrupt,
               "shard.bin, token 1 (byte 1026): 50257 is beyond the vocabulary of 50,257 tokens");
  expect_words(refused(tokenize_bytes("ab\xff", "t.txt"), {.steps = 1, .vocabulary = 128}), Cause::data_corrupt,
               "t.txt, token 2 (byte 2): 255 is beyond the vocabulary of 128 tokens");
  expect_words(refused(sequence_of({1, 2, 3}), {.steps = 3}), Cause::usage,
               "shard.bin: a row takes 3 tokens and the one after, and the file has 3");
  expect_words(refused(sequence_of({1, 2, 3}), {.steps = 0}), Cause::usage, "rows of 0 tokens");
  expect_words(refused(sequence_of({1, 2, 3}), {.steps = 1, .stride = -1}), Cause::usage, "`stride` is -1");
  expect_words(refused(sequence_of({1, 2, 3}), {.steps = 1, .vocabulary = (1 << 24) + 1}), Cause::usage,
               "`vocabulary`");
}

TEST(TokenRowsOf, AFileGivesThePositionsOfItsBytes) {
  const std::string path = testing::TempDir() + "amdahl_tokens_" + std::to_string(getpid()) + ".bin";
  std::ofstream(path, std::ios::binary) << with_header({5, 6, 700});
  const TokenSequence sequence = load_token_file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(sequence.tokens, (std::vector<uint32_t>{5, 6, 700}));
  expect_words(error_of([&] { make_token_dataset(sequence, {.steps = 1, .vocabulary = 256}); }), Cause::data_corrupt,
               path + ", token 2 (byte 1028): 700");
}

}  // namespace
}  // namespace amdahl
