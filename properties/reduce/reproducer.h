// A failing case as a file that anyone can attach to a bug report and replay.
//
// NAME.attn.json holds the case, the property, the kernel and its build identity, the verdict, digests of
// the tensors' bytes, and the line that replays it. A person can read it as well.
#pragma once

#include <string>
#include <variant>

#include "base/files.h"
#include "properties/case/codec/codec.h"
#include "properties/judge/target/target.h"
#include "properties/reduce/reduce.h"

namespace attnfuzz {

struct Reproducer {
  static constexpr int kFormat = 1;
  Case c;
  std::string property;
  // a built-in kernel's name, or a plug-in's absolute path, with ":KERNEL" if it has several
  std::string kernel;
  std::string peer;  // the kernel named by --peer, in the same form; empty: none
  int32_t backend = ATTN_CPU;
  std::string build_hash, compiler, flags, device;
  // The observed failure.
  std::string kind, message, shape;
  // the path through the kernel, as its plan names it; empty: the kernel did not get that far
  std::string path;
  std::vector<Need> needs;
  std::vector<std::string> indifferent;
  std::array<uint64_t, kTensorCount> digests = {};  // 0: tensor absent
};

std::string encode(const Reproducer& r, const std::string& file_name);  // ends in a newline
std::variant<Reproducer, DecodeError> decode_reproducer(std::string_view text);

// True if a kernel is named by the path of a library, which is loaded only on request.
bool is_plug_in(const std::string& kernel);
// One line to paste into a shell. It names the kernel and its peer build if they are plug-ins. The files of
// `before` run first, in the same worker.
std::string replay_line(const std::string& file, const std::string& kernel, const std::string& peer,
                        const std::vector<std::string>& before = {});

// The key that two reduced findings of one bug share: kernel, kind, build, the remaining features, and the
// order of magnitude of the sizes.
std::string dedupe_key(const Reproducer& r);

// A short stable name from kernel, kind and the dedupe key's hash: "fa1-non-finite-3fb2c1".
std::string reproducer_name(const Reproducer& r);

}  // namespace attnfuzz
