// Writes results of verbs to files that the caller names.
#include "amdahl/report.h"
#include "files/output_place.h"
#include "files/whole_file.h"

namespace amdahl {

void save_text(const std::string& path, const std::string& text) { write_atomic(path, text); }

Availability check_output(const std::string& path) { return writable(output_place(path)); }

bool is_stream(const std::string& path) { return output_place(path).is_stream(); }

}  // namespace amdahl
