// Token files, tokenizers and rows of tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "errors.h"
#include "files/token_file.h"
#include "train/token_dataset.h"

namespace amdahl {
namespace {

template <class Token = uint16_t>
std::string bytes_of(const std::vector<uint32_t>& tokens) {
  std::string bytes;
  for (const uint32_t token : tokens) {
    const auto number = static_cast<Token>(token);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return bytes;
}

std::string header_of(int32_t magic, int32_t version, size_t tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(tokens);
  return {reinterpret_cast<const char*>(header.data()), 1024};
}

std::string with_header(const std::vector<uint32_t>& tokens, int32_t magic = 20240520, int32_t version = 1,
                        int32_t extra = 0) {
  return header_of(magic, version, tokens.size() + static_cast<size_t>(extra)) + bytes_of(tokens);
}

TokenSequence sequence_of(std::vector<uint32_t> tokens) { return {"shard.bin", std::move(tokens), 0, {}, 1024, 2}; }

void expect_words(const Error& error, Cause cause, const std::string& words) {
  EXPECT_EQ(error.cause(), cause) << error.line();
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << " in " << error.line();
  EXPECT_FALSE(error.remedy().empty()) << error.line();
}

TEST(TokenFiles, AreReadWithAndWithoutHeader) {
  const std::vector<uint32_t> tokens{50256, 1, 0, 65535};
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

TEST(TokenFiles, HeadersSayTheWidth) {
  const std::vector<uint32_t> tokens{128'255, 1, 0, 70'000};
  const TokenFile wide = parse_token_file(header_of(20240801, 7, 4) + bytes_of<uint32_t>(tokens), "a.bin");
  EXPECT_EQ(wide.tokens, tokens);
  EXPECT_EQ(wide.token_bytes, 4u);
  EXPECT_EQ(wide.header_bytes, 1024u);
  const auto refused = [](const std::string& bytes, size_t width = 0) {
    return error_of([&] { parse_token_file(bytes, "x.bin", width); });
  };
  expect_words(refused(header_of(20240801, 7, 4) + bytes_of(tokens)), Cause::data_corrupt, "4 tokens, and 8 bytes");
  expect_words(refused(header_of(20240801, 1, 4) + bytes_of<uint32_t>(tokens)), Cause::data_corrupt, "version 1");
  expect_words(refused(header_of(20240520, 1, 4) + bytes_of(tokens), 4), Cause::usage, "has 32 bits");
  for (const auto& [magic, what] : {std::pair{20240522, "examples of an evaluation"},
                                    {20240326, "the weights of a model"},
                                    {20240803, "the weights of a model"},
                                    {20240328, "the words of a tokenizer"}})
    expect_words(refused(header_of(magic, 3, 4) + bytes_of(tokens)), Cause::data_corrupt, what);
  expect_words(refused("\x93NUMPY\1 and more"), Cause::data_corrupt, "numpy");
}

// Tokens of 32 and 64 bits without a header are not read as twice and four times as many of 16.
TEST(TokenFiles, WiderTokensAreRefusedOrReadAsTold) {
  std::mt19937 random(5);
  for (const uint32_t vocabulary : {50u, 1'000u, 50'257u, 65'536u, 128'256u, 262'144u})
    for (const size_t count : {4, 64, 1'000}) {
      if (vocabulary > 65'536 && count < 64) continue;  // a few tokens with a high half are like any numbers
      SCOPED_TRACE(fmt::format("{} tokens of {}", count, vocabulary));
      std::vector<uint32_t> tokens(count);
      for (uint32_t& token : tokens) token = random() % vocabulary;
      tokens[0] = vocabulary - 1;
      const std::string four = bytes_of<uint32_t>(tokens), eight = bytes_of<uint64_t>(tokens);
      const auto refused = [](const std::string& bytes) { return error_of([&] { parse_token_file(bytes, "x.bin"); }); };
      const Error error = refused(four);
      expect_words(error, Cause::data_corrupt, "every second 16-bit number is 0 or small: the tokens have 32 bits");
      EXPECT_NE(error.remedy().find("bin_type=u32"), std::string::npos);
      expect_words(refused(eight), Cause::data_corrupt, "the tokens have 64 bits");
      std::string big = four;
      for (size_t at = 0; at < big.size(); at += 4)
        std::reverse(big.begin() + static_cast<long>(at), big.begin() + static_cast<long>(at) + 4);
      expect_words(refused(big), Cause::data_corrupt, "the tokens have 32 bits");
      EXPECT_EQ(parse_token_file(four, "x.bin", 4).tokens, tokens);
      EXPECT_EQ(parse_token_file(eight, "x.bin", 8).tokens, tokens);
      EXPECT_EQ(parse_token_file(four, "x.bin", 2).tokens.size(), 2 * count);  // as told
      if (vocabulary <= 65'536) {
        EXPECT_EQ(parse_token_file(bytes_of(tokens), "x.bin").tokens, tokens);
      }
    }
  EXPECT_EQ(error_of([] { token_width("f32"); }).cause(), Cause::usage);
  EXPECT_EQ(token_width("u64"), 8u);
  expect_words(error_of([] { parse_token_file(std::string(16, '\1'), "x.bin", 8); }), Cause::data_corrupt,
               "token 0 (byte 0)");
  expect_words(error_of([] { parse_token_file(std::string(6, '\1'), "x.bin", 4); }), Cause::data_corrupt,
               "no multiple of 4");
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
  const std::string wide = testing::TempDir() + "amdahl_wide_" + std::to_string(getpid()) + ".txt";
  std::ofstream(wide, std::ios::binary) << std::string("\xFF\xFEs\0o\0m\0e\0", 10);
  for (const char* tokenizer : {"bytes", "words"})
    expect_words(error_of([&] { tokenize_file(wide, tokenizer, 0); }), Cause::data_corrupt,
                 "line 1: the text is UTF-16");
  std::filesystem::remove(wide);
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
  expect_words(refused(sequence_of({1, 1 << 24, 2}), {.steps = 1}), Cause::data_corrupt,
               "token 1 (byte 1026): 16777216");
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
