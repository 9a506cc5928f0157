// The adapter of `attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)'`. The source is another
// translation unit (source.h); its two functions are called here. Which elements the tensors have follows
// from the function's type, unless Takes says it.
#pragma once

#include <exception>

#include "kernels/cuda_source/adapter/adapter.h"

extern "C" int attn_entry_formats();
extern "C" void attn_entry_call(const attn_entry::Args& a);

namespace attn {

// Every format that the function can be called with. If it takes tensors, whose type does not show the format,
// these are all three; fuzz/check/tried.h runs the function to find out which formats it takes.
inline Formats entry_formats() {
  const int all = attn_entry_formats();
  return all != 0 ? static_cast<Formats>(all) : Formats::kAny;
}

// Calls the function. If it throws on the executor, the call fails, and the report has the exception's message.
// On a GPU an exception ends the process.
inline void call_entry(const Args& a) {
#ifdef __CUDACC__
  attn_entry_call(a);
#else
  try {
    attn_entry_call(a);
  } catch (const std::exception& error) {
    simt::tell(ATTN_REPORT_DEVICE, "it threw: %s", error.what());
    simt::HostCall::fail(ATTN_FAULT);
  }
#endif
}

}  // namespace attn
