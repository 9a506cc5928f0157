#include "fuzz/check/takes/sizes_taken.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <numeric>
#include <set>
#include <span>

#include "properties/case/size_set.h"

namespace attnfuzz {
namespace {

using Numbers = std::vector<int64_t>;

// All numbers up to 8, then multiples of `step`, and the neighbours of powers of two.
Numbers up_to(int64_t most, int64_t step) {
  std::set<int64_t> numbers;
  for (int64_t n = 1; n <= std::min<int64_t>(most, 8); ++n) numbers.insert(n);
  for (int64_t n = step; n <= std::min<int64_t>(most, 32 * step); n += step) numbers.insert(n);
  for (int64_t n = 16; n <= most; n *= 2) {
    for (const int64_t near : {n - 1, n, n + 1, n + n / 2}) {
      if (near <= most) numbers.insert(near);
    }
  }
  return {numbers.begin(), numbers.end()};
}

// A kind of size: the values to ask for, in their order, and a function that sets it in a case.
struct Kind {
  Numbers asked;
  std::array<int64_t, 5> odd;  // a kernel that takes these is assumed to take any
  void (*set)(Case& c, int64_t n);
};

// Also sets the usual scale, because a kernel that computes its own scale refuses others.
void set_dim_qk(Case& c, int64_t n) {
  c.problem.dim_qk = n;
  c.problem.scale = 1.0f / std::sqrt(static_cast<float>(n));
}
void set_dim_v(Case& c, int64_t n) { c.problem.dim_v = n; }
void set_dims(Case& c, int64_t n) { set_dim_qk(c, n), set_dim_v(c, n); }
void set_queries(Case& c, int64_t n) { c.problem.seq_q = n; }
void set_keys(Case& c, int64_t n) { c.problem.seq_k = n; }
void set_lengths(Case& c, int64_t n) { set_queries(c, n), set_keys(c, n); }

Numbers with_none(Numbers numbers) {
  numbers.insert(numbers.begin(), 0);
  return numbers;
}

constexpr std::array<int64_t, 5> kOddDims = {1, 5, 33, 100, 256}, kOddLengths = {0, 1, 37, 255, 2048};
const Numbers kSomeDims = up_to(256, 8), kSomeLengths = with_none(up_to(4096, 16));
const Kind kDims = {kSomeDims, kOddDims, set_dims}, kDimsOfQk = {kSomeDims, kOddDims, set_dim_qk},
           kDimsOfV = {kSomeDims, kOddDims, set_dim_v};
const Kind kLengths = {kSomeLengths, kOddLengths, set_lengths},
           kQueries = {kSomeLengths, kOddLengths, set_queries}, kKeys = {kSomeLengths, kOddLengths, set_keys};
const Kind kBatch = {
    {0, 1, 2, 3, 4, 5, 7, 8, 16, 33}, {0, 1, 2, 5, 33}, [](Case& c, int64_t n) { c.problem.batch = n; }};
const Kind kHeads = {{1, 2, 3, 4, 5, 6, 8, 12, 16, 33}, {1, 2, 3, 5, 33}, [](Case& c, int64_t n) {
                       c.problem.heads_q = c.problem.heads_kv = n;
                     }};
const Kind kGroup = {{1, 2, 3, 4, 5, 6, 8, 12, 16}, {1, 2, 3, 5, 16}, [](Case& c, int64_t n) {
                       c.problem.heads_q = n * c.problem.heads_kv;
                     }};

bool any(const attn_sizes& s) { return s.least == 0 && s.most == 0 && s.multiple == 0 && s.count == 0; }

// If a tensor has more elements than this, only the first base is tried: each trial costs memory.
constexpr int64_t kLarge = 1 << 16;

// A run with a length well above this one costs more than the runs with all lengths up to it.
constexpr int64_t kCheap = 512;

// The rule of the sizes that were taken, if it has no exceptions. Nothing for a list.
std::optional<attn_sizes> rule_of(const Numbers& asked, const Numbers& taken) {
  if (taken.empty()) return std::nullopt;
  const attn_sizes rule = simplest_sizes(asked, taken);
  Numbers in;
  std::ranges::copy_if(asked, std::back_inserter(in), [&](int64_t n) { return holds(rule, n); });
  return rule.count == 0 && in == taken ? std::optional(rule) : std::nullopt;
}

// The largest size that the rule takes. If it takes none, the largest of all.
int64_t deciding(const attn_sizes& rule, std::span<const int64_t> sizes) {
  const auto last = std::find_if(sizes.rbegin(), sizes.rend(), [&](int64_t n) { return holds(rule, n); });
  return last == sizes.rend() ? sizes.back() : *last;
}

class Search {
 public:
  Search(const Bases& bases, const TakesCase& takes, bool ignores_holes)
      : bases_(bases), takes_(takes), ignores_holes_(ignores_holes) {}

  std::optional<attn_domain> all() {
    attn_domain found = {};
    found.size = sizeof found;
    found.equal_dims = ask_for_two(kDims, kDimsOfQk, kDimsOfV, found.dim_qk, found.dim_v);
    found.equal_lengths = ask_for_two(kLengths, kQueries, kKeys, found.seq_q, found.seq_k);
    ask(kBatch, found.batch);
    ask(kHeads, found.heads_q);
    ask(kGroup, found.group);
    if (!narrowed_ && !found.equal_dims && !found.equal_lengths) return std::nullopt;
    return found;
  }

 private:
  std::optional<bool> taken(const Kind& kind, int64_t n) const {
    std::optional<bool> all = true;
    for (const Case& base : bases_) {
      Case c = base;
      kind.set(c, n);
      const Problem& p = c.problem;
      const int64_t elements = p.batch * p.heads_q * std::max(p.seq_q, p.seq_k) * std::max(p.dim_qk, p.dim_v);
      if (elements > kLarge && &base != &bases_.front()) continue;
      const std::optional<bool> one = takes_(c);
      if (one == false) return false;
      if (!one) all.reset();
    }
    return all;
  }

  // Asks for all values and returns those that were taken.
  Numbers ask(const Kind& kind, attn_sizes& sizes) {
    if (std::ranges::none_of(kind.odd, [&](int64_t n) { return taken(kind, n) == false; }))
      return {kind.odd.begin(), kind.odd.end()};
    Numbers known, unknown, takes;
    const auto answer = [&](int64_t n) {
      const std::optional<bool> one = taken(kind, n);
      (one ? known : unknown).push_back(n);
      if (one == true) takes.push_back(n);
      return one;
    };
    const auto costly = std::ranges::upper_bound(kind.asked, kCheap);
    std::for_each(kind.asked.begin(), costly, answer);
    const std::span<const int64_t> rest(costly, kind.asked.end());
    const auto rule = rest.empty() ? std::nullopt : rule_of(known, takes);
    const std::optional<int64_t> last = rule ? std::optional(deciding(*rule, rest)) : std::nullopt;
    if (!last || answer(*last) != holds(*rule, *last)) {
      for (const int64_t n : rest) {
        if (n != last) answer(n);
      }
      for (Numbers* numbers : {&known, &unknown, &takes}) std::ranges::sort(*numbers);
    }
    if (takes.empty()) return takes;
    take_unknown(unknown, known, takes);
    if (ignores_holes_) fill_narrow_holes(known, takes);
    if (takes.size() == known.size()) return takes;
    sizes = simplest_sizes(known, takes);
    narrowed_ = true;
    return takes;
  }

  // Decides about sizes that could not be tried. Let g be the greatest common divisor of the taken
  // sizes. An untried multiple of g counts as taken if it lies between the largest taken size and
  // the next refused multiple of g.
  static void take_unknown(const Numbers& unknown, Numbers& known, Numbers& takes) {
    int64_t multiple = 0;
    for (const int64_t n : takes) multiple = std::gcd(multiple, n);
    const auto refused = std::ranges::find_if(
        known, [&](int64_t n) { return n > takes.back() && n % std::max<int64_t>(multiple, 1) == 0; });
    if (refused == known.end()) return;
    const int64_t least = takes.back(), most = *refused;
    for (const int64_t n : unknown) {
      if (n <= least || n >= most || n % std::max<int64_t>(multiple, 1) != 0) continue;
      takes.push_back(n);
      known.insert(std::ranges::lower_bound(known, n), n);
    }
  }

  // True if one of two sizes may change while the other stays.
  bool moves_alone(const Kind& one, const Numbers& asked) const {
    return std::ranges::any_of(bases_, [&](const Case& base) {
      return std::ranges::any_of(asked, [&](int64_t n) {
        const Problem& p = base.problem;
        Case c = base;
        one.set(c, n);
        const bool moved = c.problem.dim_qk != p.dim_qk || c.problem.dim_v != p.dim_v ||
                           c.problem.seq_q != p.seq_q || c.problem.seq_k != p.seq_k;
        return n > 0 && moved && takes_(c) == true;
      });
    });
  }

  // Asks for two sizes together, then for each alone. True if they must be equal. If hardly any
  // common value is taken, each size is asked for alone, because one may be fixed and the other
  // free: one query, and any number of keys.
  bool ask_for_two(const Kind& both, const Kind& one, const Kind& other, attn_sizes& of_one,
                   attn_sizes& of_other) {
    const Numbers taken_together = ask(both, of_one);
    of_other = of_one;
    const Numbers& alone = taken_together.size() > 2 ? taken_together : both.asked;
    if (!moves_alone(one, alone) && !moves_alone(other, alone)) return taken_together.size() > 1;
    if (any(of_one)) return false;
    of_one = of_other = {};
    ask(one, of_one);
    ask(other, of_other);
    return false;
  }

  const Bases& bases_;
  const TakesCase& takes_;
  const bool ignores_holes_;
  bool narrowed_ = false;
};

}  // namespace

void fill_narrow_holes(const std::vector<int64_t>& asked, std::vector<int64_t>& taken) {
  constexpr size_t kOneOf = 5;
  int64_t multiple = 0;
  for (const int64_t n : taken) multiple = std::gcd(multiple, n);
  Numbers hull;
  std::ranges::copy_if(asked, std::back_inserter(hull), [&](int64_t n) {
    return n >= taken.front() && n <= taken.back() && n % std::max<int64_t>(multiple, 1) == 0;
  });
  if ((hull.size() - taken.size()) * kOneOf < hull.size()) taken = hull;
}

attn_sizes simplest_sizes(const std::vector<int64_t>& asked, const std::vector<int64_t>& taken) {
  attn_sizes sizes = {};
  const auto holds = [&] {
    Numbers in;
    std::ranges::copy_if(asked, std::back_inserter(in), [&](int64_t n) {
      return n >= sizes.least && (sizes.most == 0 || n <= sizes.most) &&
             (sizes.multiple == 0 || n % sizes.multiple == 0);
    });
    return in == taken;
  };
  int64_t multiple = 0;
  for (const int64_t n : taken) multiple = std::gcd(multiple, n);
  if (multiple > 1) sizes.multiple = multiple;
  // A limit is declared only if a value beyond it was asked for.
  for (const int64_t n : asked) {
    if (n % std::max<int64_t>(multiple, 1) != 0) continue;
    if (n < taken.front()) sizes.least = n + 1;
    if (n > taken.back() && sizes.most == 0) sizes.most = taken.back();
  }
  constexpr size_t kFew = 3;
  if ((holds() && taken.size() > kFew) || taken.size() > std::size(sizes.list)) return sizes;
  sizes = {};
  sizes.count = static_cast<int64_t>(taken.size());
  std::ranges::copy(taken, sizes.list);
  return sizes;
}

std::vector<std::string> in_words(const attn_domain& sizes) {
  std::vector<std::string> words;
  const auto other = [&](const char* what, const attn_sizes& of) {
    if (of.count == 0 && of.multiple == 0) {
      if (of.least > 0) words.push_back(std::string(what) + " below " + std::to_string(of.least));
      if (of.most > 0) words.push_back(std::string(what) + " above " + std::to_string(of.most));
      return;
    }
    std::string but;
    if (of.count > 0) {
      for (int64_t i = 0; i < of.count; ++i) but += (i ? ", " : "") + std::to_string(of.list[i]);
    } else {
      if (of.multiple > 0) but += "multiples of " + std::to_string(of.multiple);
      if (of.least > 0) but += (but.empty() ? "" : " ") + ("from " + std::to_string(of.least)) + " on";
      if (of.most > 0) but += (but.empty() ? "" : " ") + ("up to " + std::to_string(of.most));
    }
    if (!but.empty()) words.push_back(std::string(what) + " other than " + but);
  };
  const auto others = [&](const char* both, const char* one, const attn_sizes& of_one, const char* two,
                          const attn_sizes& of_two) {
    if (std::memcmp(&of_one, &of_two, sizeof of_one) == 0) return other(both, of_one);
    other(one, of_one);
    other(two, of_two);
  };
  others("head dimensions", "dim_qk", sizes.dim_qk, "dim_v", sizes.dim_v);
  if (sizes.equal_dims) words.emplace_back("dim_v other than dim_qk");
  others("lengths", "seq_q", sizes.seq_q, "seq_k", sizes.seq_k);
  if (sizes.equal_lengths) words.emplace_back("seq_q other than seq_k");
  other("a batch", sizes.batch);
  other("heads", sizes.heads_q);
  other("query heads per KV head", sizes.group);
  return words;
}

std::optional<attn_domain> sizes_taken(const Bases& bases, const TakesCase& takes, bool ignores_holes) {
  return Search(bases, takes, ignores_holes).all();
}

}  // namespace attnfuzz
