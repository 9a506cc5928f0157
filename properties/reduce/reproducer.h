// A failing case as a file that anyone can attach to a bug report and replay.
//
// NAME.attn.json holds the case, the property, the kernel and its build
// identity, the verdict, digests of the tensors' bytes, and the one line that
// replays it. It is meant to be read by a person as well.
#pragma once

#include <string>
#include <variant>

#include "properties/case/codec.h"
#include "properties/judge/target.h"
#include "properties/reduce/reduce.h"
#include "base/files.h"

namespace attnfuzz {

struct Reproducer {
  static constexpr int kFormat = 1;
  Case c;
  std::string property;
  std::string kernel;  // name of one of our own, or a plug-in: its absolute path, and ":KERNEL" of several
  std::string twin;    // the kernel that was named to compare its bits with (--twin), likewise; empty: none was
  int32_t backend = ATTN_CPU;
  std::string build_hash, compiler, flags, device;
  // What was seen.
  std::string kind, message, shape;
  std::string path;  // through the kernel, as its plan names it; empty: it did not get as far
  std::vector<Need> needs;
  std::vector<std::string> indifferent;
  std::array<uint64_t, kTensorCount> digests = {};  // 0: tensor absent
};

std::string encode(const Reproducer& r, const std::string& file_name);  // ends in a newline
std::variant<Reproducer, DecodeError> decode_reproducer(std::string_view text);

// Whether a kernel is a library by its path, which is loaded only for whoever names it.
bool is_plug_in(const std::string& kernel);
// One line to paste into a shell; it names the kernel and its twin where those are plug-ins. Files of `before`
// run first, in the same worker.
std::string replay_line(const std::string& file, const std::string& kernel, const std::string& twin,
                        const std::vector<std::string>& before = {});

// What two findings of one bug have in common once both are reduced: kernel, kind,
// lane, the features that remained, and the order of magnitude of the sizes.
std::string dedupe_key(const Reproducer& r);

// A short stable name: kernel, kind, hash of the dedupe key: "fa1-non-finite-3fb2c1".
std::string reproducer_name(const Reproducer& r);

}  // namespace attnfuzz
