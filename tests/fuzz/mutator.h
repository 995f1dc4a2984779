// Damages files at random, the same way for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl::fuzz {

class Mutator {
 public:
  /// `corpus` holds at least one file and outlives the mutator.
  Mutator(const std::vector<std::string>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {}

  /// A file of the corpus after one to eight changes, at most kMostBytes long.
  std::string next();

  static constexpr size_t kMostBytes = size_t{1} << 16;

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : static_cast<size_t>(random_() % limit); }
  std::string_view piece_of(const std::string& bytes, size_t longest);

  void flip_bit(std::string& bytes);
  void set_byte(std::string& bytes);
  void truncate(std::string& bytes);
  void remove_piece(std::string& bytes);
  void move_piece(std::string& bytes);
  void repeat_piece(std::string& bytes);
  void splice(std::string& bytes);
  void change_digit(std::string& bytes);
  void replace_number(std::string& bytes);
  void insert_token(std::string& bytes);
  void write_whole_number(std::string& bytes);

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace amdahl::fuzz
