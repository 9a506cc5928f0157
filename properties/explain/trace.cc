#include "properties/explain/trace.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>

#include "properties/case/words.h"
#include "properties/data/recipe.h"
#include "properties/data/row_scores.h"
#include "properties/judge/execution.h"
#include "reference/numbers/formats.h"
#include "reference/oracle.h"

namespace attnfuzz {
namespace {

constexpr size_t kMostRows = 24;  // wrong rows on which readings are tried
// elements of V; more than these are not all distinct in 16 bits
constexpr int64_t kMostOfV = int64_t{1} << 15;
constexpr int64_t kMostWork = int64_t{1} << 26;  // multiply-adds for each reading
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An element of V: column d of key j of batch entry b and KV head g.
struct ValueAt {
  int64_t b, g, j, d;
};

struct Run {
  attn_plan plan = {};
  Reference reference;
  std::vector<float> o;
};

std::optional<Run> run(const Case& c, Target& target, const Calibration& calibration) {
  Execution e(c, target);
  if (!e.why_not().empty()) return std::nullopt;
  for (const Call& call : c.calls) {
    if (!failure(e.run(call)).empty()) return std::nullopt;
  }
  return Run{e.plan, e.evaluate(calibration), e.laid.read(e.operation.main())};
}

// Another interpretation of the problem.
struct Reading {
  std::string words;  // "wrong rows are what they would be if ..."
  Case c;
  FaultClass fault = FaultClass::kMask;                                        // the fault that it means
  std::function<int64_t(int64_t h)> kv_head = nullptr;                         // the KV head of a query head
  std::function<bool(int64_t j, int64_t first, int64_t last)> lost = nullptr;  // a visible key that is skipped
  std::function<ValueAt(ValueAt)> value = nullptr;  // the element of V that is read instead; j < 0: a 0
};

// All readings that are tried, the simplest first.
class Readings {
 public:
  Readings(const Case& c, const attn_plan& plan)
      : c_(c), p_(c.problem), tile_(std::max<int64_t>(plan.tile_k, 1)) {
    other_visibility();
    other_scores();
    lost_keys();
    other_heads();
    other_values();
  }
  std::vector<Reading> all;

 private:
  void other_visibility() {
    const auto as = [&](std::string words, const Edit& edit) {
      edited(std::move(words), FaultClass::kMask, edit);
    };
    if (p_.causal) as("it were not causal", [](Problem& x) { x.causal = false; });
    if (!p_.causal) as("it were causal", [](Problem& x) { x.causal = true; });
    if (p_.causal || p_.window_left >= 0 || p_.window_right >= 0) {
      as(p_.align == ATTN_TOP_LEFT ? "the diagonal were bottom-right" : "the diagonal were top-left",
         [](Problem& x) { x.align = ATTN_TOP_LEFT + ATTN_BOTTOM_RIGHT - x.align; });
    }
    for (const auto& [side, name] :
         {std::pair{&Problem::window_left, "window_left"}, {&Problem::window_right, "window_right"}}) {
      const int64_t now = p_.*side;
      if (now < 0) continue;
      as(cat("there were no ", name), [&](Problem& x) { x.*side = -1; });
      for (const int64_t by : {-1, 1}) {
        if (now + by >= 0)
          as(cat(name, " were ", now + by, " instead of ", now), [&](Problem& x) { x.*side = now + by; });
      }
    }
    if (p_.causal)
      as("each query saw one key past its diagonal", [](Problem& x) {
        x.causal = false;
        x.window_right = 1;
      });
    if (has_key_blocks(p_)) key_blocks();
    if (p_.key_lengths) {
      as("key lengths were ignored", [](Problem& x) { x.key_lengths.reset(); });
      if (p_.batch > 1) {
        as("all batch entries had the key length of entry 0",
           [](Problem& x) { std::ranges::fill(*x.key_lengths, x.key_lengths->front()); });
        as("only batch entry 0 had its key length", [](Problem& x) {
          for (size_t b = 1; b < x.key_lengths->size(); ++b) (*x.key_lengths)[b] = most_positions(x, x.seq_k);
        });
      }
    }
    if (p_.mask) {
      as("the mask were ignored", [](Problem& x) { x.mask.reset(); });
      as("the mask of head 0 were that of all heads", [](Problem& x) { x.mask->broadcast.head = true; });
      as("the mask of batch entry 0 were that of all", [](Problem& x) { x.mask->broadcast.batch = true; });
    }
  }

  void key_blocks() {
    const auto as = [&](std::string words, const Edit& edit) {
      edited(std::move(words), FaultClass::kMask, edit);
    };
    as("each key stood for itself", [](Problem& x) { x.key_step = x.key_offset = 0; });
    as("each block ended one key later", [](Problem& x) { ++x.key_offset; });
    if (p_.key_offset > 0) {
      as("each block ended one key sooner", [](Problem& x) { --x.key_offset; });
      as("a block were seen from its first key on", [](Problem& x) { x.key_offset = 0; });
    }
    if (p_.key_step > 1) as("blocks lay one key apart", [](Problem& x) { x.key_step = 1; });
    if (p_.key_step != p_.key_offset + 1)
      as("blocks lay side by side", [](Problem& x) { x.key_step = x.key_offset + 1; });
  }

  void other_scores() {
    const auto as = [&](std::string words, const Edit& edit) {
      edited(std::move(words), FaultClass::kNumerics, edit);
    };
    if (p_.bias) as("the bias were ignored", [](Problem& x) { x.bias.reset(); });
    if (p_.softcap > 0) as("the softcap were ignored", [](Problem& x) { x.softcap = 0; });
    as("the scale were 1", [](Problem& x) { x.scale = 1; });
    as("the scale were 1 / sqrt(dim_qk)",
       [](Problem& x) { x.scale = 1 / std::sqrt(static_cast<float>(x.dim_qk)); });
  }

  void lost_keys() {
    // If a row of few keys lacks one, there may be many reasons, so the fault's class stays unknown.
    const auto lose = [&](std::string words, const std::function<bool(int64_t, int64_t, int64_t)>& lost) {
      all.push_back({.words = std::move(words), .c = c_, .fault = FaultClass::kUnknown, .lost = lost});
    };
    lose("the last visible key were missing", [](int64_t j, int64_t, int64_t last) { return j == last; });
    lose("the first visible key were missing", [](int64_t j, int64_t first, int64_t) { return j == first; });
    lose("the last tile of keys were missing",
         [tile = tile_](int64_t j, int64_t, int64_t last) { return j / tile == last / tile; });
    lose("the first tile of keys were missing",
         [tile = tile_](int64_t j, int64_t first, int64_t) { return j / tile == first / tile; });
  }

  void other_heads() {
    const auto heads_as = [&](std::string words, const std::function<int64_t(int64_t)>& kv_head) {
      all.push_back({.words = std::move(words), .c = c_, .fault = FaultClass::kDispatch, .kv_head = kv_head});
    };
    if (p_.heads_kv <= 1) return;
    const int64_t n = p_.heads_kv, group = p_.heads_q / n;
    heads_as(cat("query head h read KV head h mod ", n), [=](int64_t h) { return h % n; });
    heads_as("all query heads read KV head 0", [](int64_t) { return int64_t{0}; });
    heads_as("query heads read the KV head after their own", [=](int64_t h) { return (h / group + 1) % n; });
  }

  void other_values() {
    const auto from = [&](std::string words, const std::function<ValueAt(ValueAt)>& value) {
      all.push_back({.words = std::move(words), .c = c_, .fault = FaultClass::kLayout, .value = value});
    };
    const int64_t keys = p_.seq_k, dims = p_.dim_v, kv = p_.heads_kv, batch = p_.batch;
    for (const int64_t by : {1, -1}) {
      from(by > 0 ? "V were read one key later" : "V were read one key earlier",
           [=](ValueAt x) { return ValueAt{x.b, x.g, x.j + by < keys ? x.j + by : -1, x.d}; });
      from(by > 0 ? "V were read one column to the right" : "V were read one column to the left",
           [=](ValueAt x) {
             const bool inside = x.d + by >= 0 && x.d + by < dims;
             return ValueAt{x.b, x.g, inside ? x.j : -1, x.d + by};
           });
      if (kv > 1)
        from("V were that of another head",
             [=](ValueAt x) { return ValueAt{x.b, (x.g + by + kv) % kv, x.j, x.d}; });
      if (batch > 1)
        from("V were that of another batch entry",
             [=](ValueAt x) { return ValueAt{(x.b + by + batch) % batch, x.g, x.j, x.d}; });
    }
    from("neighbouring columns of V were exchanged",
         [=](ValueAt x) { return ValueAt{x.b, x.g, (x.d ^ 1) < dims ? x.j : -1, x.d ^ 1}; });
    if (p_.dim_qk != p_.dim_v) {
      from("rows of V were as far apart as those of K", [=, step = p_.dim_qk](ValueAt x) {
        const int64_t at = x.j * step + x.d;
        return ValueAt{x.b, x.g, at < keys * dims ? at / dims : -1, at % dims};
      });
    }
  }

  using Edit = std::function<void(Problem&)>;
  void edited(std::string words, FaultClass fault, const Edit& edit) {
    Case other = c_;
    edit(other.problem);
    if (illegal(other) || other == c_) return;
    all.push_back({.words = std::move(words), .c = std::move(other), .fault = fault});
  }

  const Case& c_;
  const Problem& p_;
  const int64_t tile_;
};

class Tracer {
 public:
  Tracer(const Case& c, const Run& run) : c_(c), p_(c.problem), run_(run), oracle_(c, run.plan) {
    for (int64_t row = 0; row < run.reference.rows; ++row) {
      for (int64_t d = 0; d < p_.dim_v; ++d) {
        const float got = at(row, d);
        if (run.reference.main().ratio(row, d, got) <= 1) continue;
        if (!std::isfinite(got)) non_finite_ = true;
        bad_.push_back({row, d});
        if (rows_.empty() || rows_.back() != row) rows_.push_back(row);
      }
    }
  }

  Trace trace() {
    Trace trace;
    // NaN and infinity do not identify a place.
    if (bad_.empty() || non_finite_) return trace;
    if (const std::string text = looked_up(); !text.empty()) trace.lines.push_back(text);
    read(trace);
    return trace;
  }

 private:
  float at(int64_t row, int64_t d) const { return run_.o[static_cast<size_t>(row * p_.dim_v + d)]; }
  Row query(int64_t row) const { return RowSpace(p_).at(row); }

  // If every wrong result is a single element of V: names the element in the first wrong result. Otherwise
  // empty.
  std::string looked_up() {
    if (p_.batch * p_.heads_kv * p_.seq_k * p_.dim_v > kMostOfV) return "";
    struct Found {
      ValueAt place;
      bool twice;
    };
    std::unordered_map<double, Found> places;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t g = 0; g < p_.heads_kv; ++g) {
        const std::vector<double> v = matrix_at(c_, TensorId::kV, b, g);
        for (size_t e = 0; e < v.size(); ++e) {
          const auto [it, added] = places.try_emplace(
              v[e],
              Found{{b, g, static_cast<int64_t>(e) / p_.dim_v, static_cast<int64_t>(e) % p_.dim_v}, false});
          if (!added) it->second.twice = true;
        }
      }
    }
    std::optional<ValueAt> first;
    std::string foreign;
    for (const auto& [row, d] : bad_) {
      const auto it = places.find(at(row, d));
      if (it == places.end() || it->second.twice) return "";
      const ValueAt& x = it->second.place;
      const auto [b, h, i] = query(row);
      if (!first) {
        first = x;
        const bool seen = sees(c_, b, h, i, x.j);
        foreign = x.b != b                    ? "of another batch entry"
                  : x.g != oracle_.kv_head(h) ? "of another head"
                  : x.d != d                  ? "of another column"
                  : seen                      ? "one of its keys, of several"
                                              : "of a key that it does not see";
      }
    }
    const auto& [row, d] = bad_.front();
    const Row at = query(row);
    return cat("o(b=", at.b, ",h=", at.h, ",q=", at.i, ",d=", d, ") holds v(b=", first->b, ",head=", first->g,
               ",key=", first->j, ",d=", first->d, "), ", foreign,
               bad_.size() > 1 ? cat("; so do the other ", bad_.size() - 1, " hold single values of V") : "");
  }

  // Finds the first reading that explains all rows that are tried, and further readings of its class that do.
  void read(Trace& trace) {
    constexpr size_t kMostReadings = 3;
    std::vector<int64_t> rows;
    for (size_t n = 0; n < rows_.size(); n += std::max<size_t>(1, rows_.size() / kMostRows))
      rows.push_back(rows_[n]);
    const auto work = static_cast<int64_t>(rows.size()) * p_.seq_k * (p_.dim_qk + p_.dim_v);
    if (work > kMostWork) return;
    const Readings readings(c_, run_.plan);
    for (const Reading& reading : readings.all) {
      if (!trace.readings.empty() && reading.fault != trace.fault) continue;
      RowOracle oracle(reading.c, run_.plan);
      if (reading.kv_head) oracle.read_kv_heads_as(reading.kv_head);
      evidence_ = 0;
      const bool fits = std::ranges::all_of(rows, [&](int64_t row) { return row_fits(reading, oracle, row); });
      if (!fits || evidence_ < 2) continue;
      trace.fault = reading.fault;
      trace.readings.push_back(reading.words);
      if (trace.readings.size() == kMostReadings) break;
    }
    if (!trace.readings.empty())
      trace.lines.push_back("wrong rows are what they would be if " + join(trace.readings, ", or if "));
  }

  bool row_fits(const Reading& reading, RowOracle& oracle, int64_t row) {
    const auto [b, h, i] = query(row);
    ExactRow exact = oracle.row(b, h, i);
    const auto visible = [&](double x) { return x != -kInfinity; };
    const auto first = std::ranges::find_if(exact.x, visible);
    if (first != exact.x.end() && reading.lost) {
      const auto from = first - exact.x.begin();
      auto last = static_cast<std::ptrdiff_t>(exact.x.size()) - 1;
      while (!visible(exact.x[static_cast<size_t>(last)])) --last;
      for (auto j = from; j <= last; ++j) {
        if (reading.lost(j, from, last)) exact.x[static_cast<size_t>(j)] = -kInfinity;
      }
    }
    double most = -kInfinity, sum = 0;
    for (const double x : exact.x) most = std::max(most, x);
    std::vector<double> weight(exact.x.size());
    for (size_t j = 0; j < weight.size() && most != -kInfinity; ++j)
      sum += weight[j] = std::exp(exact.x[j] - most);
    for (int64_t d = 0; d < p_.dim_v; ++d) {
      double o = 0, size = 0;
      for (size_t j = 0; j < weight.size() && sum > 0; ++j) {
        if (weight[j] == 0) continue;
        ValueAt place{b, oracle.kv_head(h), static_cast<int64_t>(j), d};
        if (reading.value) place = reading.value(place);
        if (place.j < 0) continue;
        const double v = element(place);
        o += weight[j] / sum * v;
        size += weight[j] / sum * std::fabs(v);
      }
      // The error that any right kernel's arithmetic may cause for this reading.
      const double rounding = 2 * format_of(p_.dtype).unit;
      const double got = at(row, d), off = std::fabs(got - o);
      if (!(off <= 2 * rounding * size + 0x1p-20)) return false;
      // A wrong result must be much nearer to this reading than to the right value.
      if (run_.reference.main().ratio(row, d, at(row, d)) <= 1) continue;
      const double wrong =
          std::fabs(got - run_.reference.main().value[static_cast<size_t>(row * p_.dim_v + d)]);
      if (!(off <= 0.1 * wrong + rounding * std::fabs(got))) return false;
      // Evidence: an error far beyond rounding counts once, one as large as the values themselves twice.
      evidence_ += wrong > 16 * rounding * size ? wrong > 0.25 * size ? 2 : 1 : 0;
    }
    return true;
  }

  double element(const ValueAt& place) {
    auto& v = values_[static_cast<size_t>(place.b * p_.heads_kv + place.g)];
    if (v.empty()) v = matrix_at(c_, TensorId::kV, place.b, place.g);
    return v[static_cast<size_t>(place.j * p_.dim_v + place.d)];
  }

  struct Bad {
    int64_t row, d;
  };
  const Case& c_;
  const Problem& p_;
  const Run& run_;
  RowOracle oracle_;
  std::vector<Bad> bad_;
  std::vector<int64_t> rows_;
  bool non_finite_ = false;
  int evidence_ = 0;  // for the current reading
  std::unordered_map<size_t, std::vector<double>> values_;
};

}  // namespace

Trace trace_values(const Case& c, Target& target, const Calibration& calibration) {
  if (c.remap != Remap{}) return {};  // the values of a remapped case come from another case
  if (std::string why = cannot_score(c.problem); !why.empty()) return {.lines = {std::move(why)}};
  Case coded = c;
  store_v_apart(coded);
  coded.v = Fill{.kind = FillKind::kPosition};
  std::erase_if(coded.planted, [](const Planted& x) { return x.tensor == TensorId::kV; });
  coded.nan_beyond_lengths = false;
  const auto at_once = run(coded, target, calibration);
  return at_once ? Tracer(coded, *at_once).trace() : Trace{};
}

}  // namespace attnfuzz
