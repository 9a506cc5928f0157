#include "properties/judge/judge.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "properties/data/recipe.h"
#include "properties/judge/shape.h"

namespace attnfuzz {
namespace {

const char* name_of(attn_status status) {
  switch (status) {
    case ATTN_OK:
      return "ATTN_OK";
    case ATTN_UNSUPPORTED:
      return "ATTN_UNSUPPORTED";
    case ATTN_INVALID:
      return "ATTN_INVALID";
    case ATTN_LAUNCH_FAILED:
      return "ATTN_LAUNCH_FAILED";
    case ATTN_FAULT:
      return "ATTN_FAULT";
  }
  return nullptr;
}

std::string describe(attn_status status) {
  const char* name = name_of(status);
  return name ? name
              : "status " + std::to_string(static_cast<int>(status)) + ", which attention.h does not know";
}

// What is found in one output as a whole. Of the elements outside their bound
// the first speaks for all, or the first that is not a number at all: what kind
// of failure it is does not hang on where the rows lie.
struct Tally {
  int64_t bad = 0, of = 0;
  bool stray = false;  // the first one is not a number
  double worst = 0;
  int64_t first_row = -1, first_column = 0;
  double first_ratio = 0;

  void add(int64_t row, int64_t column, double ratio, bool not_a_number) {
    ++of;
    if (ratio <= 1) {
      worst = std::max(worst, ratio);
      return;
    }
    if (bad++ == 0 || (not_a_number && !stray)) {
      stray = not_a_number;
      first_row = row;
      first_column = column;
      first_ratio = ratio;
    }
    // A NaN ratio is as bad as can be.
    worst = ratio > worst ? ratio : std::isnan(ratio) ? std::numeric_limits<double>::infinity() : worst;
  }
};

bool any_set(const uint8_t* flags, int64_t n) {
  uint8_t all = 0;
  for (int64_t c = 0; c < n; ++c) all |= flags[c];
  return all != 0;
}

// Errors of a row of plain numbers, without a branch an element: false if any
// is out of bounds, in which case *worst means nothing.
bool plain_row(const double* expected, const double* bound, const float* got, int64_t n, double* worst) {
  double largest = *worst;
  int outside = 0;
  for (int64_t c = 0; c < n; ++c) {
    const double error = std::fabs(got[c] - expected[c]);
    outside |= !(error <= bound[c]);
    // A bound of 0 admits only an error of 0, whose ratio is 0.
    const double ratio = error / (bound[c] + std::numeric_limits<double>::min());
    largest = ratio > largest ? ratio : largest;
  }
  if (outside == 0) *worst = largest;
  return outside == 0;
}

Tally tally_o(const Reference& reference, std::span<const float> o) {
  Tally tally;
  const int64_t n = reference.dim_v;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const RowState state = reference.state[row];
    if (state == RowState::kSkipped || state == RowState::kUnconstrained) continue;
    const float* got = o.data() + row * n;
    if (state == RowState::kBounded && !any_set(reference.o_nan.data() + row * n, n) &&
        plain_row(reference.o.data() + row * n, reference.o_bound.data() + row * n, got, n, &tally.worst)) {
      tally.of += n;
      continue;
    }
    for (int64_t c = 0; c < n; ++c)
      tally.add(row, c, ratio_o(reference, row, c, got[c]), !std::isfinite(got[c]));
  }
  return tally;
}

Tally tally_lse(const Reference& reference, std::span<const float> lse) {
  Tally tally;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const RowState state = reference.state[row];
    if (state == RowState::kSkipped || state == RowState::kUnconstrained) continue;
    // -inf is a value of an LSE as others are.
    const bool number = std::isfinite(lse[row]) || lse[row] == -std::numeric_limits<float>::infinity();
    tally.add(row, 0, ratio_lse(reference, row, lse[row]), !number);
  }
  return tally;
}

// How the error looks as a whole. Only asked of failures, so it may take its time.
std::string shape_of(const Reference& reference, const Problem& p, const attn_plan& plan, bool is_o,
                     std::span<const float> got, const Case* c) {
  const int64_t columns = is_o ? reference.dim_v : 1;
  std::vector<uint8_t> bad(got.size()), dead(static_cast<size_t>(reference.rows));
  for (int64_t row = 0; row < reference.rows; ++row) {
    dead[row] = reference.state[row] == RowState::kDead;
    for (int64_t d = 0; d < columns; ++d) {
      const int64_t n = row * columns + d;
      bad[n] = !((is_o ? ratio_o(reference, row, d, got[n]) : ratio_lse(reference, row, got[n])) <= 1);
    }
  }
  ShapeInput input;
  input.batch = p.batch;
  input.heads = p.heads_q;
  input.seq_q = p.seq_q;
  input.dim_v = columns;
  input.tile_q = plan.tile_q;
  input.got = got;
  input.expected = is_o ? reference.o : reference.lse;
  input.bad = bad;
  input.dead = dead;
  std::vector<double> value;
  constexpr int64_t kMostValues = int64_t{1} << 20;
  if (is_o && c && p.batch * p.heads_kv * p.seq_k * p.dim_v <= kMostValues) {
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t g = 0; g < p.heads_kv; ++g) {
        const std::vector<double> v = matrix_at(*c, TensorId::kV, b, g);
        value.insert(value.end(), v.begin(), v.end());
      }
    }
    input.heads_kv = p.heads_kv;
    input.seq_k = p.seq_k;
    input.value = value;
  }
  return error_shape(input);
}

void object(const Reference& reference, const Problem& p, const attn_plan& plan, const Tally& tally,
            const char* tensor, std::span<const float> got, const Case* c, Verdict& v) {
  const bool is_o = tensor[0] == 'o';
  const int64_t row = tally.first_row, index = is_o ? row * reference.dim_v + tally.first_column : row;
  Where where = where_is(tensor, p, plan, row, tally.first_column);
  where.got = got[index];
  where.bad = tally.bad;
  where.of = tally.of;
  const RowState state = reference.state[row];
  const bool dead = state == RowState::kDead;
  const bool wants_nan = is_o ? reference.o_nan[index] == 1 : state == RowState::kNaN;
  const double infinity = std::numeric_limits<double>::infinity();
  if (dead) {
    where.expected = is_o ? 0 : -infinity;
  } else if (wants_nan) {
    where.expected = std::numeric_limits<double>::quiet_NaN();
  } else {
    where.expected = is_o ? reference.o[index] : reference.lse[index];
    where.bound = is_o ? reference.o_bound[index] : reference.lse_bound[index];
  }

  std::string message = name_of(where) + " is " + digits(where.got);
  if (dead) {
    message += ", but no key is visible to this query: it must be exactly " + digits(where.expected);
  } else if (wants_nan) {
    message += ", but a NaN is visible to this query: it must be NaN";
  } else {
    message += ", must be " + digits(where.expected) + " +- " + digits(where.bound);
    if (std::isfinite(tally.first_ratio)) message += " (error/bound " + digits(tally.first_ratio) + ")";
  }
  message += "; " + std::to_string(tally.bad) + " of " + std::to_string(tally.of) + " elements are outside";
  // -inf is a value of an LSE as others are.
  const bool finite = std::isfinite(where.got) || (!is_o && where.got == -infinity);
  const bool non_finite = wants_nan ? true : dead && !is_o ? std::isnan(where.got) : !finite;
  fail(v, non_finite ? Kind::kNonFinite : Kind::kWrong, message);
  v.where = where;
  v.shape = shape_of(reference, p, plan, is_o, got, c);
}

}  // namespace

void fail(Verdict& v, Kind kind, std::string message) {
  if (v.outcome != Outcome::kPass) return;
  v.outcome = Outcome::kFail;
  v.kind = kind;
  v.message = std::move(message);
}

std::string digits(double x) {
  if (std::isnan(x)) return "nan";
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", x);
  // What a kernel wrote is told to the last bit.
  const auto single = static_cast<float>(x);
  if (single == x && std::strtof(text, nullptr) != single) std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

Where where_is(const char* tensor, const Problem& p, const attn_plan& plan, int64_t row, int64_t d) {
  Where where;
  where.tensor = tensor;
  where.b = row / (p.heads_q * p.seq_q);
  where.h = row / p.seq_q % p.heads_q;
  where.q = row % p.seq_q;
  where.d = d;
  where.tile_q = plan.tile_q > 0 ? where.q / plan.tile_q : 0;
  return where;
}

std::string name_of(const Where& where) {
  std::string name = std::string(where.tensor) + "(b=" + std::to_string(where.b) +
                     ",h=" + std::to_string(where.h) + ",q=" + std::to_string(where.q);
  if (std::strcmp(where.tensor, "o") == 0) name += ",d=" + std::to_string(where.d);
  return name + ")";
}

std::optional<std::string> bad_plan(const attn_plan& plan) {
  if (plan.size < ATTN_PLAN_MIN) {
    return "size is " + std::to_string(plan.size) + ", must be at least " + std::to_string(ATTN_PLAN_MIN);
  }
  if (!std::memchr(plan.path, 0, sizeof plan.path)) return "path has no terminating NUL";
  // Far more rows than any block holds, and few enough to be drawn a case of.
  constexpr int64_t kMostRows = 1 << 20;
  for (const auto& [name, rows] : {std::pair{"tile_q", plan.tile_q}, std::pair{"tile_k", plan.tile_k}}) {
    if (rows > kMostRows) {
      return std::string(name) + " is " + std::to_string(rows) +
             ", more than the 2^20 rows that a tile may have (1 will do for a kernel without tiles)";
    }
  }
  struct Count {
    const char* name;
    int64_t value, least;
  };
  for (const Count& count : {Count{"tile_q", plan.tile_q, 1}, Count{"tile_k", plan.tile_k, 1},
                             Count{"num_splits", plan.num_splits, 1}, Count{"split_tiles", plan.split_tiles, 0},
                             Count{"rescales", plan.rescales, 0}, Count{"merges", plan.merges, 0},
                             Count{"mma_block", plan.mma_block, 0}}) {
    if (count.value < count.least) {
      return std::string(count.name) + " is " + std::to_string(count.value) + ", must be at least " +
             std::to_string(count.least);
    }
  }
  struct Choice {
    const char* name;
    int32_t value, last;
  };
  for (const Choice& choice : {Choice{"accumulator", plan.accumulator, ATTN_ACC_TENSOR},
                               Choice{"exp_class", plan.exp_class, ATTN_EXP_FAST_EXPF},
                               Choice{"log_class", plan.log_class, ATTN_LOG_FAST_LOGF},
                               Choice{"rcp_class", plan.rcp_class, ATTN_RCP_EXACT},
                               Choice{"tanh_class", plan.tanh_class, ATTN_TANH_TANHF},
                               Choice{"scale_mode", plan.scale_mode, ATTN_SCALE_FOLDED_Q},
                               Choice{"p_format", plan.p_format, ATTN_FORMAT_OF_INPUT},
                               Choice{"partial_format", plan.partial_format, ATTN_FORMAT_OF_INPUT}}) {
    if (choice.value < 0 || choice.value > choice.last) {
      return std::string(choice.name) + " is " + std::to_string(choice.value) +
             ", which attention.h does not know (0 means: not known)";
    }
  }
  if (!std::has_single_bit(plan.workspace_align)) {
    return "workspace_align is " + std::to_string(plan.workspace_align) + ", must be a power of two";
  }
  return std::nullopt;
}

bool accept_plan(const PlanReply& reply, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  v.site = reply.site;
  if (reply.timed_out) {
    fail(v, Kind::kHang, "plan() did not return before the watchdog ended it");
  } else if (reply.crash) {
    fail(v, Kind::kCrash, "plan() died: " + *reply.crash);
  } else if (reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID) {
    if (reply.reason.empty()) {
      fail(v, Kind::kRefusal, "plan() refused with " + describe(reply.status) + " but gave no reason");
    } else {
      v.outcome = Outcome::kReject;
      v.message = "refused: " + reply.reason;
    }
  } else if (reply.status != ATTN_OK) {
    fail(v, Kind::kRefusal,
         "plan() answered " + describe(reply.status) + (reply.reason.empty() ? "" : ": " + reply.reason));
  } else if (auto bad = bad_plan(reply.plan)) {
    fail(v, Kind::kRefusal, "the plan makes no sense: " + *bad);
  }
  return v.outcome == Outcome::kPass;
}

Kind kind_of(const Fault& fault) {
  switch (fault.kind) {
    case ATTN_REPORT_ADDRESS:
      return Kind::kAddress;
    case ATTN_REPORT_UNDEFINED:
      return Kind::kUndefined;
    case ATTN_REPORT_UNINITIALISED:
      return Kind::kUninitialised;
    case ATTN_REPORT_RACE:
      return Kind::kRace;
    default:
      return Kind::kFault;
  }
}

bool accept_run(const RunReply& reply, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  v.site = reply.site;
  if (reply.fault) v.fault = reply.fault;
  if (reply.fault) {
    // The back end's own word says more than how the process ended.
    fail(v, kind_of(*reply.fault), reply.fault->message);
  } else if (reply.timed_out) {
    fail(v, Kind::kHang, "the kernel did not finish before the watchdog ended it");
  } else if (reply.crash) {
    fail(v, Kind::kCrash, "the worker died while the kernel ran: " + *reply.crash);
  } else if (reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID) {
    fail(v, Kind::kRefusal, "run() answered " + describe(reply.status) + " to what plan() had accepted");
  } else if (reply.status == ATTN_LAUNCH_FAILED) {
    fail(v, Kind::kFault, "the launch was refused, or launched nothing (ATTN_LAUNCH_FAILED)");
  } else if (reply.status != ATTN_OK) {
    fail(v, Kind::kFault, "run() answered " + describe(reply.status));
  }
  return v.outcome == Outcome::kPass;
}

bool accept_memory(const std::optional<MemoryFault>& fault, const Problem& p, const attn_plan& plan,
                   Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  if (!fault) return true;
  switch (fault->kind) {
    case MemoryFault::Kind::kGuard:
    case MemoryFault::Kind::kGap:
      fail(v, Kind::kGuard, fault->message);
      break;
    case MemoryFault::Kind::kInputChanged:
      fail(v, Kind::kInputChanged, fault->message);
      break;
    case MemoryFault::Kind::kUnwritten:
      fail(v, Kind::kUnwritten, fault->message);
      break;
  }
  if (fault->tensor == TensorId::kO || fault->tensor == TensorId::kLse) {
    Where where;
    where.tensor = fault->tensor == TensorId::kO ? "o" : "lse";
    where.b = fault->index[0];
    where.h = fault->index[1];
    where.q = fault->index[2];
    where.d = fault->index[3];
    where.tile_q = where.q / plan.tile_q;
    where.got = std::numeric_limits<double>::quiet_NaN();
    where.of = p.batch * p.heads_q * p.seq_q * (fault->tensor == TensorId::kO ? p.dim_v : 1);
    v.where = where;
  }
  return false;
}

bool judge_outputs(const Reference& reference, const Problem& p, const attn_plan& plan,
                   std::span<const float> o, std::span<const float> lse, Verdict& v, const Case* c) {
  if (v.outcome != Outcome::kPass) return false;
  const Tally of_o = tally_o(reference, o);
  const Tally of_lse = lse.empty() ? Tally{} : tally_lse(reference, lse);
  const double worst = std::max(of_o.worst, of_lse.worst);
  v.worst = std::max(v.worst, worst);
  v.ratios.push_back(static_cast<float>(worst));
  if (of_o.bad > 0 && (of_o.stray || !of_lse.stray)) {
    object(reference, p, plan, of_o, "o", o, c, v);
    if (of_lse.bad > 0) {
      v.message += "; of LSE " + std::to_string(of_lse.bad) + " of " + std::to_string(of_lse.of);
    } else if (!lse.empty()) {
      v.message += "; LSE is right";
    }
  } else if (of_lse.bad > 0) {
    object(reference, p, plan, of_lse, "lse", lse, c, v);
    v.message += of_o.bad > 0 ? "; of O " + std::to_string(of_o.bad) + " of " + std::to_string(of_o.of)
                              : std::string("; O is right");
  }
  return v.outcome == Outcome::kPass;
}

std::optional<int64_t> first_difference(std::span<const float> a, std::span<const float> b) {
  // Equal bits, the usual case, at the speed of memcmp.
  if (a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0))
    return std::nullopt;
  for (size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
    if (std::isnan(a[n]) && std::isnan(b[n])) continue;
    if (std::bit_cast<uint32_t>(a[n]) != std::bit_cast<uint32_t>(b[n])) return static_cast<int64_t>(n);
  }
  if (a.size() != b.size()) return static_cast<int64_t>(std::min(a.size(), b.size()));
  return std::nullopt;
}

bool judge_same(const char* tensor, std::span<const float> a, std::span<const float> b, const Problem& p,
                const attn_plan& plan, Kind kind, const std::string& message, Verdict& v) {
  if (v.outcome != Outcome::kPass) return false;
  const std::optional<int64_t> first = first_difference(a, b);
  if (!first) return true;
  const int64_t columns = tensor[0] == 'o' ? p.dim_v : 1;
  Where where = where_is(tensor, p, plan, *first / columns, *first % columns);
  where.expected = a[*first];
  where.got = b[*first];
  where.of = static_cast<int64_t>(a.size());
  for (size_t n = 0; n < a.size(); ++n) {
    where.bad += std::bit_cast<uint32_t>(a[n]) != std::bit_cast<uint32_t>(b[n]) &&
                 !(std::isnan(a[n]) && std::isnan(b[n]));
  }
  fail(v, kind,
       message + ": " + name_of(where) + " was " + digits(where.expected) + ", is " + digits(where.got) + "; " +
           std::to_string(where.bad) + " of " + std::to_string(where.of) + " elements differ");
  v.where = where;
  return false;
}

}  // namespace attnfuzz
