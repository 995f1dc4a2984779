#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <climits>

#include "amdahl/error.h"
#include "files/gzip.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr int kGzipWindow = 15 + 16;  // largest window, and a gzip header instead of zlib's
constexpr int kMemoryLevel = 8;       // zlib's default
constexpr size_t kPieceBytes = size_t{1} << 20;

class Deflate {
 public:
  Deflate() {
    const int code =
        deflateInit2(&state_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY);
    if (code != Z_OK) throw Error(Cause::internal, fmt::format("zlib cannot start: code {}", code));
  }
  ~Deflate() { deflateEnd(&state_); }
  Deflate(const Deflate&) = delete;
  Deflate& operator=(const Deflate&) = delete;

  void add(std::string_view piece, bool last, std::string& output) {
    // zlib only reads through this pointer; its type predates const.
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    state_.avail_in = static_cast<uInt>(piece.size());
    char room[1 << 16];
    do {
      state_.next_out = reinterpret_cast<Bytef*>(room);
      state_.avail_out = sizeof(room);
      const int code = deflate(&state_, last ? Z_FINISH : Z_NO_FLUSH);
      if (code == Z_STREAM_ERROR) throw Error(Cause::internal, "zlib refused to compress");
      output.append(room, sizeof(room) - state_.avail_out);
    } while (state_.avail_out == 0);
  }

 private:
  z_stream state_{};
};

class Inflate {
 public:
  Inflate() {
    if (const int code = inflateInit2(&state_, kGzipWindow); code != Z_OK)
      throw Error(Cause::internal, fmt::format("zlib cannot start: code {}", code));
  }
  ~Inflate() { inflateEnd(&state_); }
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;

  void give(std::string_view bytes) {
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    state_.avail_in = static_cast<uInt>(bytes.size());
  }
  /// Decompresses the next piece; returns zlib's code.
  int take(std::string_view& piece) {
    state_.next_out = reinterpret_cast<Bytef*>(room_);
    state_.avail_out = sizeof(room_);
    const int code = inflate(&state_, Z_NO_FLUSH);
    piece = {room_, sizeof(room_) - state_.avail_out};
    return code;
  }
  bool used_up() const { return state_.avail_in == 0; }

 private:
  z_stream state_{};
  char room_[1 << 16];
};

/// More than this, and than so many times the compressed size, is taken for an attack on the memory.
constexpr size_t kAnyBytes = size_t{64} << 20, kMostTimes = 200;

}  // namespace

std::string gunzip(std::string_view bytes, const std::string& origin, Cause cause, size_t most_bytes) {
  const auto refuse = [&](const std::string& what, const char* remedy) {
    throw Error(cause, fmt::format("{}: {}", origin, what), remedy);
  };
  if (bytes.size() > UINT_MAX) refuse("a compressed file of more than 4 GiB", "gunzip it first");
  const size_t likely = std::max(kAnyBytes, kMostTimes * bytes.size()), most = std::min(most_bytes, likely);
  const auto each_piece = [&](const auto& visit) {
    Inflate inflate;
    inflate.give(bytes);
    std::string_view piece;
    size_t total = 0;
    for (int code = Z_OK; code != Z_STREAM_END;) {
      code = inflate.take(piece);
      total += piece.size();
      if (total > most)
        refuse(
            fmt::format(
                "more than {} when decompressed{}", format_bytes(static_cast<double>(most)),
                most < most_bytes ? fmt::format(", {} times its size", most / std::max<size_t>(1, bytes.size())) : ""),
            most < most_bytes ? "gunzip it first, if it is meant to be so large" : "a smaller file");
      const bool ended_early = code == Z_BUF_ERROR || (code == Z_OK && inflate.used_up() && total == 0);
      if (code != Z_STREAM_END && (code != Z_OK || ended_early))
        refuse("the compressed data is damaged or cut off", "a copy of the file");
      visit(piece);
    }
    if (!inflate.used_up()) refuse("something follows the compressed data", "a file of one gzip member");
    return total;
  };
  // The size is known before memory is taken, and no more than it is taken.
  const size_t size = each_piece([](std::string_view) {});
  require_memory(static_cast<double>(size), origin, "a part of it");
  std::string output;
  output.reserve(size);
  each_piece([&](std::string_view piece) { output += piece; });
  return output;
}

std::string gzip(std::string_view text) {
  Deflate deflate;
  std::string output;
  do {
    const std::string_view piece = text.substr(0, kPieceBytes);
    text.remove_prefix(piece.size());
    deflate.add(piece, text.empty(), output);
  } while (!text.empty());
  return output;
}

}  // namespace amdahl
