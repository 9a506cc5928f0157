// A forward and a backward kernel on the host, right, and with the faults that a team met in training:
//
//   forward, backward        right
//   both                     both passes in one kernel, right
//   nan_at_two_lengths       forward: O has a NaN where there are 512 or 2048 keys
//   uninitialised_cu         forward: copies cu_q to its workspace without the first 0, and reads the copy
//   old_cu                   forward: reads the copy of cu_q that an earlier call has left in its workspace
//   varying                  forward: its first, third, ... packed call is wrong
//   saved_in_place           backward: scales its saved O in place
//   losing_last_key          backward: no gradient of the last key of a sequence
//   left_in_process          both passes: the backward pass is wrong after a forward pass in the same process
//   packed_forward, packed_backward    right, and refuse sequences that are not packed
//   up_to_40                forward: refuses more than 40 keys
//   dense_forward           right, and takes no packed sequences
//
// All take causal and full attention, a window to the left, dense sequences, key lengths and grouped heads, and
// all but the last take packed sequences.
#include <math.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/plug_in.h"
#include "properties/data/bits16.h"

namespace {

using attn::Call;

enum class Fault {
  kNone,
  kNanAtTwoLengths,
  kUninitialisedCu,
  kOldCu,
  kVarying,
  kSavedInPlace,
  kLosingLastKey,
  kLeftInProcess,
  kPackedOnly,
  kUpTo40,
  kDenseOnly
};

enum class Passes { kForward, kBackward, kBoth };

// State that kernels keep between calls.
int packed_calls = 0;
bool forward_ran = false;

struct Rows {
  int64_t first, count;
};

// A tensor of 16 bits.
struct View {
  attn_tensor t;
  int32_t dtype;
  int64_t b, h;
  uint16_t* at(int64_t row, int64_t column) const {
    return static_cast<uint16_t*>(t.data) + b * t.stride[0] + h * t.stride[1] + row * t.stride[2] +
           column * t.stride[3];
  }
  float operator()(int64_t row, int64_t column) const { return attnfuzz::to_float(dtype, *at(row, column)); }
  void store(int64_t row, int64_t column, float x) const { *at(row, column) = attnfuzz::from_float(dtype, x); }
};

float& fp32(const attn_tensor& t, int64_t b, int64_t h, int64_t row) {
  return static_cast<float*>(t.data)[b * t.stride[0] + h * t.stride[1] + row * t.stride[2]];
}

// One sequence and one query head, with its rows in fp32.
struct Sequence {
  const attn_problem& p;
  const attn_tensors t;
  int64_t b, h;
  Rows queries, keys;
  bool packed;
  std::vector<float> q, k, v;

  Sequence(const Call& call, int64_t batch_entry, int64_t head, Rows of_q, Rows of_k)
      : p(call.problem),
        t(attn::strided(call.problem, call.tensors)),
        b(batch_entry),
        h(head),
        queries(of_q),
        keys(of_k),
        packed(call.problem.ragged != 0),
        q(load(t.q, h, queries, p.dim_qk)),
        k(load(t.k, g(), keys, p.dim_qk)),
        v(load(t.v, g(), keys, p.dim_v)) {}

  int64_t g() const { return h / (p.heads_q / p.heads_kv); }
  int64_t entry() const { return packed ? 0 : b; }
  View view(const attn_tensor& tensor, int64_t head) const { return {tensor, p.dtype, entry(), head}; }
  std::vector<float> load(const attn_tensor& tensor, int64_t head, Rows rows, int64_t columns) const {
    std::vector<float> numbers;
    for (int64_t i = 0; i < rows.count; ++i) {
      for (int64_t c = 0; c < columns; ++c) numbers.push_back(view(tensor, head)(rows.first + i, c));
    }
    return numbers;
  }
  int64_t visible(int64_t i) const {
    const int64_t diagonal = i + (p.align == ATTN_BOTTOM_RIGHT ? keys.count - queries.count : 0);
    return p.causal ? std::clamp<int64_t>(diagonal + 1, 0, keys.count) : keys.count;
  }
  int64_t first_key(int64_t i) const {
    const int64_t diagonal = i + (p.align == ATTN_BOTTOM_RIGHT ? keys.count - queries.count : 0);
    return p.window_left < 0 ? 0 : std::max<int64_t>(diagonal - p.window_left, 0);
  }
  static float dot(const float* a, const float* b, int64_t n) {
    float sum = 0;
    for (int64_t c = 0; c < n; ++c) sum = fmaf(a[c], b[c], sum);
    return sum;
  }
  float score(int64_t i, int64_t j) const {
    return p.scale * dot(&q[i * p.dim_qk], &k[j * p.dim_qk], p.dim_qk);
  }
};

void forward(const Sequence& s) {
  const attn_problem& p = s.p;
  std::vector<float> weights(static_cast<size_t>(s.keys.count)), o(static_cast<size_t>(p.dim_v));
  for (int64_t i = 0; i < s.queries.count; ++i) {
    const int64_t seen = s.visible(i), from = s.first_key(i);
    float highest = -std::numeric_limits<float>::infinity(), sum = 0;
    for (int64_t j = from; j < seen; ++j) highest = std::max(highest, weights[j] = s.score(i, j));
    std::ranges::fill(o, 0.0f);
    for (int64_t j = from; j < seen; ++j) {
      const float weight = expf(weights[j] - highest);
      sum += weight;
      for (int64_t c = 0; c < p.dim_v; ++c) o[c] = fmaf(weight, s.v[j * p.dim_v + c], o[c]);
    }
    const int64_t row = s.queries.first + i;
    for (int64_t c = 0; c < p.dim_v; ++c) s.view(s.t.o, s.h).store(row, c, seen <= from ? 0 : o[c] / sum);
    if (s.t.lse.data != nullptr) fp32(s.t.lse, s.entry(), s.h, row) = highest + logf(sum);
  }
}

// Adds the head's part to the sums of its KV head, and writes dQ.
void backward(const Sequence& s, std::vector<float>& dk, std::vector<float>& dv) {
  const attn_problem& p = s.p;
  const std::vector<float> o = s.load(s.t.o, s.h, s.queries, p.dim_v),
                           dout = s.load(s.t.dout, s.h, s.queries, p.dim_v);
  std::vector<float> dq(static_cast<size_t>(p.dim_qk));
  for (int64_t i = 0; i < s.queries.count; ++i) {
    const int64_t row = s.queries.first + i;
    const float* d = &dout[i * p.dim_v];
    const float delta = Sequence::dot(d, &o[i * p.dim_v], p.dim_v);
    std::ranges::fill(dq, 0.0f);
    for (int64_t j = s.first_key(i); j < s.visible(i); ++j) {
      const float weight = expf(s.score(i, j) - fp32(s.t.lse, s.entry(), s.h, row));
      const float ds = weight * (Sequence::dot(d, &s.v[j * p.dim_v], p.dim_v) - delta);
      for (int64_t c = 0; c < p.dim_v; ++c) dv[j * p.dim_v + c] = fmaf(weight, d[c], dv[j * p.dim_v + c]);
      for (int64_t c = 0; c < p.dim_qk; ++c) {
        dq[c] = fmaf(ds, s.k[j * p.dim_qk + c], dq[c]);
        dk[j * p.dim_qk + c] = fmaf(ds, s.q[i * p.dim_qk + c], dk[j * p.dim_qk + c]);
      }
    }
    for (int64_t c = 0; c < p.dim_qk; ++c) s.view(s.t.dq, s.h).store(row, c, p.scale * dq[c]);
  }
}

const char* refuses(const attn_problem& p) {
  if (p.dtype == ATTN_F32) return "fp32";
  if (p.ragged != 0 && p.ragged != (ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS))
    return "queries or keys packed alone";
  if (p.softcap != 0 || p.window_right >= 0 || p.has_mask || p.bias_dtype != ATTN_NONE)
    return "anything but causal or full attention";
  if (p.has_key_lengths && p.ragged != 0) return "key lengths of packed sequences";
  return nullptr;
}

constexpr const char* name_of(Fault fault, Passes passes) {
  switch (fault) {
    case Fault::kNone:
      return passes == Passes::kForward ? "forward" : passes == Passes::kBackward ? "backward" : "both";
    case Fault::kNanAtTwoLengths:
      return "nan_at_two_lengths";
    case Fault::kUninitialisedCu:
      return "uninitialised_cu";
    case Fault::kOldCu:
      return "old_cu";
    case Fault::kVarying:
      return "varying";
    case Fault::kSavedInPlace:
      return "saved_in_place";
    case Fault::kLosingLastKey:
      return "losing_last_key";
    case Fault::kLeftInProcess:
      return "left_in_process";
    case Fault::kPackedOnly:
      return passes == Passes::kForward ? "packed_forward" : "packed_backward";
    case Fault::kUpTo40:
      return "up_to_40";
    case Fault::kDenseOnly:
      return "dense_forward";
  }
}

template <Fault fault, Passes passes>
struct Kernel {
  static constexpr const char* kName = name_of(fault, passes);
  static constexpr const char* kDescription = "attention on the host, for tests of training";
  static constexpr attn_backend kBackend = ATTN_CPU;
  static constexpr uint64_t kFeatures =
      (fault == Fault::kDenseOnly ? 0 : ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32) |
      (passes == Passes::kForward ? 0 : ATTN_FEATURE_BACKWARD) |
      (passes == Passes::kBackward ? ATTN_FEATURE_NO_FORWARD : 0);

  static attn::Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (const char* why = refuses(p)) return {ATTN_UNSUPPORTED, why};
    if (fault == Fault::kPackedOnly && p.ragged == 0)
      return {ATTN_UNSUPPORTED, "sequences that are not packed"};
    if (fault == Fault::kUpTo40 && p.seq_k > 40) return {ATTN_UNSUPPORTED, "more than 40 keys"};
    *plan = attn::plain_plan("host", 64, call.problem.seq_k);
    plan->exp_class = ATTN_EXP_EXPF;
    plan->ds_format = plan->head_format = ATTN_FORMAT_F32;
    plan->dq_adds = plan->dkv_adds = 1;
    if (fault == Fault::kVarying) plan->deterministic = 0;
    if (copies(p)) {
      plan->workspace_bytes = static_cast<uint64_t>(p.batch + 2) * sizeof(int64_t);
      plan->workspace_align = alignof(int64_t);
    }
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    if (copies(p)) copy_borders(call);
    packed_calls += p.ragged != 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t g = 0; g < p.heads_kv; ++g) of_group(call, b, g);
    }
    forward_ran = forward_ran || !is_backward(p);
    return ATTN_OK;
  }

 private:
  static bool is_backward(const attn_problem& p) { return (p.features & ATTN_FEATURE_BACKWARD) != 0; }
  static bool copies(const attn_problem& p) {
    const bool varies = fault == Fault::kVarying;  // uses the workspace, so that a dirty one could be suspected
    return (fault == Fault::kUninitialisedCu || fault == Fault::kOldCu || varies) && p.ragged != 0;
  }
  static int64_t* copied(const Call& call) { return static_cast<int64_t*>(call.tensors.workspace); }

  static void copy_borders(const Call& call) {
    constexpr int64_t kThere = 0x5eed'cafe;
    const int64_t batch = call.problem.batch;
    int64_t* const copy = copied(call);
    if (fault == Fault::kOldCu && copy[batch + 1] == kThere)
      return;  // the bug: the copy may be of another call
    copy[batch + 1] = kThere;
    // The bug: element 0 is not written.
    for (int64_t b = fault == Fault::kUninitialisedCu ? 1 : 0; b <= batch; ++b)
      copy[b] = attn::index_at(call.problem, call.tensors.cu_q, b);
  }

  static Rows rows(const Call& call, const void* cu, int64_t b, int64_t longest) {
    if (call.problem.ragged == 0) return {0, longest};
    const auto border = [&](int64_t n) {
      return copies(call.problem) && cu == call.tensors.cu_q ? copied(call)[n]
                                                             : attn::index_at(call.problem, cu, n);
    };
    return {border(b), std::clamp<int64_t>(border(b + 1) - border(b), 0, longest)};
  }

  static void of_group(const Call& call, int64_t b, int64_t g) {
    const attn_problem& p = call.problem;
    const Rows queries = rows(call, call.tensors.cu_q, b, p.seq_q);
    Rows keys = rows(call, call.tensors.cu_k, b, p.seq_k);
    if (p.has_key_lengths)
      keys.count = std::clamp<int64_t>(attn::index_at(p, call.tensors.key_lengths, b), 0, p.seq_k);
    std::vector<float> dk(static_cast<size_t>(keys.count * p.dim_qk)),
        dv(static_cast<size_t>(keys.count * p.dim_v));
    const int64_t group = p.heads_q / p.heads_kv;
    for (int64_t h = g * group; h < (g + 1) * group; ++h) {
      const Sequence s(call, b, h, queries, keys);
      if (is_backward(p)) {
        backward(s, dk, dv);
        if (fault == Fault::kSavedInPlace && queries.count > 0)
          s.view(s.t.o, h).store(queries.first, 0, 2 * s.view(s.t.o, h)(queries.first, 0) + 1);
      } else {
        forward(s);
        if (fault == Fault::kNanAtTwoLengths && (keys.count == 512 || keys.count == 2048))
          s.view(s.t.o, h).store(queries.first, 0, std::numeric_limits<float>::quiet_NaN());
        if (fault == Fault::kVarying && packed_calls % 2 == 1 && queries.count > 0)
          s.view(s.t.o, h).store(queries.first, 0, 100);
      }
    }
    if (is_backward(p)) store_keys(Sequence(call, b, g * group, queries, keys), dk, dv);
  }

  static void store_keys(const Sequence& s, const std::vector<float>& dk, const std::vector<float>& dv) {
    const attn_problem& p = s.p;
    for (int64_t j = 0; j < s.keys.count; ++j) {
      const bool loses = fault == Fault::kLosingLastKey || (fault == Fault::kLeftInProcess && forward_ran);
      const float factor = loses && j + 1 == s.keys.count ? 0.0f : 1.0f;
      for (int64_t c = 0; c < p.dim_qk; ++c)
        s.view(s.t.dk, s.g()).store(s.keys.first + j, c, factor * p.scale * dk[j * p.dim_qk + c]);
      for (int64_t c = 0; c < p.dim_v; ++c)
        s.view(s.t.dv, s.g()).store(s.keys.first + j, c, factor * dv[j * p.dim_v + c]);
    }
  }
};

const attn_kernel kernels[] = {attn::plug_in<Kernel<Fault::kNone, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kNone, Passes::kBackward>>(),
                               attn::plug_in<Kernel<Fault::kNone, Passes::kBoth>>(),
                               attn::plug_in<Kernel<Fault::kNanAtTwoLengths, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kUninitialisedCu, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kOldCu, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kVarying, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kSavedInPlace, Passes::kBackward>>(),
                               attn::plug_in<Kernel<Fault::kLosingLastKey, Passes::kBackward>>(),
                               attn::plug_in<Kernel<Fault::kLeftInProcess, Passes::kBoth>>(),
                               attn::plug_in<Kernel<Fault::kPackedOnly, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kPackedOnly, Passes::kBackward>>(),
                               attn::plug_in<Kernel<Fault::kUpTo40, Passes::kForward>>(),
                               attn::plug_in<Kernel<Fault::kDenseOnly, Passes::kForward>>()};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < std::size(kernels) ? &kernels[index] : nullptr;
}
