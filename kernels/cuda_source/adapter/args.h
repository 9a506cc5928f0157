// The arguments that an adapter gives to a kernel's host function. The user's source sees this header too
// (source.h), so it is plain data and includes no other header of attnfuzz.
#pragma once

#include <cuda_runtime.h>

namespace attn_entry {

// Converts to any pointer type that the kernel's function takes.
struct Pointer {
  void* data = nullptr;
  template <class T>
  operator T*() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// The call's stream. It records whether run() used it.
class Stream {
 public:
  Stream() = default;
  Stream(::cudaStream_t stream, bool* asked) : stream_(stream), asked_(asked) {}
  operator ::cudaStream_t() const {
    if (asked_) *asked_ = true;
    return stream_;
  }

 private:
  ::cudaStream_t stream_ = nullptr;
  bool* asked_ = nullptr;
};

struct Args {
  Pointer q, k, v, o;
  float* lse = nullptr;  // not null if Takes has an LSE
  int B, H, Hkv, S, Sq, Sk, D, Dv;
  float scale;
  bool causal;
  int window_left, window_right;  // keys to either side of the diagonal that a query sees; -1: all
  int dtype;                      // attn_dtype of the problem
  Stream stream;  // a kernel that does not use it may launch on any stream: the copy of O waits for all streams
  // With Takes::page, K and V are (page, slot, head, dim): num_pages pages of page_size keys. Key j of batch
  // entry b is in slot j % page_size of page block_table[b * pages_per_seq + j / page_size], and the entry has
  // key_lengths[b] keys, from 0 to Sk. Entries of the table that no key needs may hold any number, and so may
  // slots without a key; most hold NaN.
  const int* block_table = nullptr;
  const int* key_lengths = nullptr;
  int page_size = 0, pages_per_seq = 0, num_pages = 0;
  // The same pointers by shorter names.
  const int* pages = nullptr;
  const int* lengths = nullptr;
  int page = 0, pages_each = 0, pages_all = 0;
  // The sink of each head, (H), and the slopes of ALiBi, for batch entry b at slopes + b * slopes_each; null if the
  // problem has none.
  const float* sink = nullptr;
  const float* slopes = nullptr;
  int slopes_each = 0;  // H, or 0 if all batch entries have the same
  // With Takes::packed, Q, O and, unless keys are in pages, K and V are (row, head, dim) and the LSE is (head,
  // row). Batch entry b has the queries cu_q[b] to cu_q[b + 1] - 1 and the keys cu_k[b] to cu_k[b + 1] - 1 of
  // total_q and total_k rows; no entry has more than Sq queries or Sk keys. Rows behind the last entry belong
  // to no entry, and must not be written.
  const int* cu_q = nullptr;
  const int* cu_k = nullptr;
  int total_q = 0, total_k = 0;
  bool by_head = true;  // the order of dense tensors is (b, h, s, d), not (b, s, h, d)
};

}  // namespace attn_entry
