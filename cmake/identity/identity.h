// Build identity: a hash of everything a kernel library is compiled from.
//
// Weeks have been lost to a stale binary. So each library carries the hash of
// its sources, of the headers the compiler really read for them, of the flags
// and of the compiler; and whoever loads it can compare with the tree. It is
// computed when the library is built, not when the build is configured: after
// an edit the next build computes it anew, and without a build the hash in the
// binary no longer fits the tree, which is the point.
//
// The compiler itself says what it reads: its commands are taken from
// compile_commands.json, and each is run once more with -MM. Files outside the
// source tree (the system's, the toolkit's, generated ones) are represented by
// the compiler's version. `root` is not part of the hash, and paths in flags
// are rewritten, so two checkouts of one commit have one identity.
//
//   Identity id = identify({.root = "/src", .build = "/src/build",
//                           .commands = "/src/build/compile_commands.json",
//                           .objects = {"/attn_fa1_cpu.dir/"}});
//   write(path, as_c(id));
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

struct IdentityOptions {
  std::string root;   // the source tree; files are named relative to it
  std::string build;  // the build tree: what lies in it is generated and left out, unless root lies in it too
  std::string commands;  // compile_commands.json
  // Takes the commands whose object file has one of these directories in its path.
  std::vector<std::string> objects;
  std::string skip;  // a source to leave out: the identity's own
};

struct Identity {
  std::string hash;  // XXH3-128 of all but root, lower-case hex
  std::string compiler, flags, root;
  std::vector<std::pair<std::string, std::string>> files;  // name relative to root, XXH3-128; sorted
};

// Throws std::runtime_error that says what could not be read or run.
Identity identify(const IdentityOptions& options);

// XXH3-128 of a file's bytes, lower-case hex; empty if it cannot be read.
std::string file_hash(const std::string& path);
// The bytes themselves, however many; nothing if it cannot be read.
std::optional<std::string> file_bytes(const std::string& path);

// A C file that defines attn_build_identity (kernels/identity.h).
std::string as_c(const Identity& id);
// A dependency file for make and ninja: `target` depends on the identity's files.
std::string as_depfile(const Identity& id, const std::string& target);

}  // namespace attnfuzz
