#include <fmt/format.h>
#include <zlib.h>

#include "amdahl/error.h"
#include "files/gzip.h"

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

}  // namespace

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
