// The adapter of `attnfuzz check attention.cu --entry 'launch(q, k, v, o, B, H, S, D)'`. The source is another
// translation unit (source.h); its two functions are called here. The function's type gives the type of the
// tensors' elements, unless Takes names it.
#pragma once

#include <exception>

#include "kernels/cuda_source/adapter/adapter.h"

extern "C" int attn_entry_formats();
extern "C" void attn_entry_call(const attn_entry::Args& a);

namespace attn {

// Every format that the function can be called with. The type of PyTorch's tensors does not show the format, so
// a function of tensors has all three; fuzz/check/takes/tried.h runs it to find out which formats it takes.
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
