// Makes a plug-in from an unchanged CUDA source and a call of its function:
//
//   attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)' --takes 'dim = one_of(32, 64)'
//
// Names in the call are the fields of attn_entry::Args (kernels/cuda_source/adapter/args.h). They say what the
// kernel takes:
//
//   S, but neither Sq nor Sk   as many queries as keys; S is the number of keys
//   no Dv                      one head dimension
//   no Hkv                     a head of K and V for each query head
//   no causal, no lse          no causal mask; no LSE is written
//   no scale                   1/sqrt(D)
//
// The function's type says which elements the tensors have. `takes` sets further fields of attn::Takes:
// statements with ';' between them.
#pragma once

#include <string>
#include <vector>

#include "cli/entry/compiler.h"

namespace attnfuzz {

struct Entry {
  std::string source = {};                 // a .cu file
  std::string call = {};                   // one expression
  std::string takes = {};                  // "dim = one_of(32, 64); causal = Causal::kOnly"; or empty
  std::string found = {};                  // more such statements, found by running the function
  std::string backend = {};                // "cpu" or "cuda"
  std::string build_kind = {};             // the build of the library; empty: plain
  std::vector<std::string> includes = {};  // folders of its headers, beside its own
};

bool is_cuda_source(const std::string& kernel);

// Tells whether the call names a length of queries or keys.
bool names_lengths(const std::string& call);

// Tells whether a statement of --takes sets `field`, a regular expression.
bool sets(const std::string& takes, const std::string& field);

// Throws UserError if the text is not a call, if it calls a __global__ function without a launch,
// or if the contract cannot express the call.
void expect_entry(const Entry& entry);

// The path of the library that build_entry() makes, without the build in its name.
std::string library_path(const Entry& entry, const std::string& folder);

// Writes a project to `folder`/STEM-HASH.attnfuzz (HASH: of the source's path, call, takes and includes),
// builds it with CMake, `compiler` and the package of this installation, and returns the library's path,
// without the build in its name. Throws UserError with the compiler's message, or if there is no call.
std::string build_entry(const Entry& entry, const Compiler& compiler, const std::string& folder);

}  // namespace attnfuzz
