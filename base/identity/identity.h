// Build identity: a hash of everything that a kernel library is compiled from.
//
// A stale binary costs weeks. So each library carries a hash of its sources, of the
// headers that the compiler read for them, of the flags and of the compiler. The
// command compares that hash with the source tree. The hash is computed at each
// build, not when the build is configured: after an edit without a build it no longer
// fits the tree, and the command says so.
//
// The list of headers comes from the compiler: each command of compile_commands.json
// runs once more with -MM. The version of the compiler stands for headers of the system
// and of the toolkit. The inputs of a generated file stand for the file, and an original
// for its copy in a mirror (base/mirror.h). A file outside the source tree is named by its
// whole path, and the hash holds the last part of that path only. The hash leaves out
// `root`, and paths in flags are rewritten, so that two checkouts of one commit have one
// identity.
//
//   Identity id = identify({.root = "/src", .build = "/src/build",
//                           .commands = "/src/build/compile_commands.json",
//                           .objects = {"/attn_fa1_cpu.dir/"}});
//   write(path, as_c(id));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

struct IdentityOptions {
  std::string root;   // the source tree; its files are named relative to it
  std::string build;  // the build tree: its files are generated and left out, unless root lies in it
  std::string commands;  // compile_commands.json
  // Only commands whose object file lies in one of these directories count.
  std::vector<std::string> objects;
  std::string skip;  // a source to leave out: the identity's own
};

struct Identity {
  std::string hash;  // XXH3-128 of all but root, lower-case hex
  std::string compiler, flags, root;
  std::vector<std::pair<std::string, std::string>> files;  // name relative to root, XXH3-128; sorted
};

// Throws std::runtime_error that names the file or command that failed.
Identity identify(const IdentityOptions& options);

// True if a file of an identity lies outside its root.
inline bool is_outside(const std::string& name) { return name.starts_with('/'); }

// XXH3-128 of a file, in lower-case hex. Empty if the file cannot be read, is no regular file or exceeds
// kMostSourceBytes: its name may come from a library that a stranger built.
inline constexpr int64_t kMostSourceBytes = int64_t{64} << 20;
std::string file_hash(const std::string& path);
// All bytes of a file; empty if it cannot be read.
std::optional<std::string> file_bytes(const std::string& path);

// A C file that defines attn_build_identity (kernels/identity.h).
std::string as_c(const Identity& id);
// A dependency file for make and ninja: `target` depends on the identity's files.
std::string as_depfile(const Identity& id, const std::string& target);

}  // namespace attnfuzz
