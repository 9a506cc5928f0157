// A kernel gets some tensors of a call as copies. The copies lie in the workspace, between redzones of kGap
// bytes.
#pragma once

#include "kernels/cuda_source/adapter/takes.h"

namespace attn::adapter {

enum Piece { kQ, kK, kV, kO, kLse, kPages, kLengths, kCuQ, kCuK, kPieces };
inline constexpr const char* kPieceNames[] = {"Q",           "K",    "V",   "O", "LSE", "the page table",
                                              "the lengths", "cu_q", "cu_k"};

// One tensor of the caller, and the copy that the kernel gets.
struct Copy {
  attn_tensor from = {};
  int64_t shape[4] = {};   // the caller's shape
  int64_t stride[4] = {};  // strides of the copy
  int64_t elements = 0;    // elements of the copy
  size_t bytes_each = 2;   // bytes of each of them
  bool made = false;
  uint64_t offset = 0;  // in the workspace
  uint64_t bytes() const { return static_cast<uint64_t>(elements) * bytes_each; }
  int64_t count() const { return shape[0] * shape[1] * shape[2] * shape[3]; }  // the caller's elements
};

inline constexpr uint64_t kGap = 256;
inline constexpr unsigned char kRedzone = 0xFF;  // a NaN in every format

struct Layout {
  std::array<Copy, kPieces> pieces = {};
  uint64_t bytes = 0;
  float factor = 1;  // the factor of Q
  bool folds = false;
  // The kernel's pages: keys per page, pages per batch entry (a row of the table), and pages in all. 0: the
  // kernel takes no pages.
  int64_t page = 0, pages_each = 0, pages_all = 0;
  bool same_pages = false;  // true: they are the caller's pages; false: the adapter fills them
};

inline bool is_dense(const attn_tensor& t, const int64_t (&shape)[4], const int64_t (&stride)[4]) {
  for (int i = 0; i < 4; ++i) {
    if (shape[i] > 1 && t.stride[i] != stride[i]) return false;
  }
  return true;
}

inline void divide_into_pages(const Takes& takes, const attn_problem& p, Layout* layout) {
  if (takes.page == 0) return;
  constexpr int64_t kUsual = 16;
  layout->same_pages = p.page_size != 0 && (takes.page == kAnyPage || takes.page == p.page_size);
  layout->page = layout->same_pages ? p.page_size : takes.page == kAnyPage ? kUsual : takes.page;
  layout->pages_each = layout->same_pages ? p.pages_per_seq : ceil_div(p.seq_k, layout->page);
  layout->pages_all = layout->same_pages ? p.pages : layout->pages_each * p.batch;
}

// The copies that a call needs, and the place of each in the workspace.
inline Layout layout_of(const Takes& takes, const Call& call) {
  const attn_problem& p = call.problem;
  const attn_tensors t = strided(p, call.tensors);
  Layout layout;
  if (takes.scale == Scale::kOwn) layout.factor = p.scale / takes.scale.own(p);
  if (std::fabs(layout.factor - 1) < 1e-6f) layout.factor = 1;
  layout.folds = layout.factor != 1;
  divide_into_pages(takes, p, &layout);
  const Rows queries = rows_of_queries(p), keys = rows_of_keys(p);
  const auto add = [&](Piece i, const attn_tensor& tensor, int64_t h, int64_t d) {
    Copy& c = layout.pieces[i];
    const bool of_keys = i == kK || i == kV, paged = layout.page > 0 && of_keys;
    // If the caller's pages have another size, keys are moved one by one.
    const bool other_pages = paged && p.page_size != 0 && !layout.same_pages;
    const auto [entries, s] = other_pages ? Rows{p.batch, p.seq_k} : of_keys ? keys : queries;
    const int64_t shape[4] = {entries, h, s, d};
    const bool by_head = (takes.order == Order::kBhsd && !takes.packed && !paged) || i == kLse;
    int64_t stride[4] = {h * s * d, by_head ? s * d : d, by_head ? d : h * d, 1};
    if (takes.packed && i == kLse) stride[0] = s, stride[1] = entries * s;  // (head, row)
    c.from = tensor;
    for (int n = 0; n < 4; ++n) c.shape[n] = shape[n], c.stride[n] = stride[n];
    c.elements = entries * h * s * d;
    c.bytes_each = i == kLse || p.dtype == ATTN_F32 ? 4 : 2;
    if (paged) c.elements = layout.pages_all * layout.page * h * d;
    c.made = (paged && !layout.same_pages) || (i == kQ && layout.factor != 1) || tensor.data == nullptr ||
             !is_dense(tensor, shape, stride) ||
             reinterpret_cast<uintptr_t>(tensor.data) % takes.align_bytes != 0;
    if (i == kLse && takes.lse == Lse::kNone) c.made = false, c.elements = 0;
  };
  add(kQ, t.q, p.heads_q, p.dim_qk);
  add(kK, t.k, p.heads_kv, p.dim_qk);
  add(kV, t.v, p.heads_kv, p.dim_v);
  add(kO, t.o, p.heads_q, p.dim_v);
  add(kLse, t.lse, p.heads_q, 1);
  const auto make = [&](Piece i, int64_t numbers) {
    layout.pieces[i].made = true;
    layout.pieces[i].bytes_each = 4;
    layout.pieces[i].elements = numbers;
  };
  if (layout.page > 0) make(kPages, p.batch * layout.pages_each), make(kLengths, p.batch);
  if (takes.packed) make(kCuQ, p.batch + 1);
  if (takes.packed && (layout.page == 0 || (p.ragged & ATTN_RAGGED_KEYS) != 0)) make(kCuK, p.batch + 1);
  for (Copy& c : layout.pieces) {
    if (!c.made) continue;
    c.offset = layout.bytes + kGap;
    layout.bytes = (c.offset + c.bytes() + kGap - 1) / kGap * kGap;
  }
  if (layout.bytes) layout.bytes += kGap;
  return layout;
}

// Calls f(begin, end, piece) for each redzone of the workspace. `piece` is a copy next to the redzone.
template <class F>
void each_gap(const Layout& layout, F f) {
  uint64_t at = 0;
  int last = -1;
  for (int i = 0; i < kPieces; ++i) {
    const Copy& c = layout.pieces[static_cast<size_t>(i)];
    if (!c.made) continue;
    f(at, c.offset, last < 0 ? i : last);
    at = c.offset + c.bytes();
    last = i;
  }
  if (last >= 0) f(at, layout.bytes, last);
}

}  // namespace attn::adapter
