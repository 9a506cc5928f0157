// A CUDA source as it stands, made into a plug-in by how its function is called:
//
//   attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)' --takes 'dim = one_of(32, 64)'
//
// Names in the call are the fields of attn::Args (kernels/adapter.h), and say what the
// kernel takes: S without Sq and Sk as many queries as keys, no Dv one head dimension, no
// Hkv a head of K and V for each query head, no causal no such mask, no lse none written,
// no scale 1/sqrt(D). Which elements the tensors have follows from the function's type.
// `takes` sets fields of attn::Takes beside: statements with ';' between them.
#pragma once

#include <string>
#include <vector>

namespace attnfuzz {

struct Entry {
  std::string source;   // a .cu file
  std::string call;     // one expression
  std::string takes;    // "dim = one_of(32, 64); causal = Causal::kOnly"; or empty
  std::string backend;  // "cpu" or "cuda"
  std::string lane;     // that the library is built for; empty: plain
  std::vector<std::string> includes = {};  // folders of its headers, beside its own
};

bool is_cuda_source(const std::string& kernel);

// Says so, writes a project to `folder`/STEM.attnfuzz, builds it with CMake and the package of this
// installation, and returns the library's path, without its lane. Throws UserError: with what the compiler
// said, or without a call.
std::string build_entry(const Entry& entry, const std::string& folder);

}  // namespace attnfuzz
