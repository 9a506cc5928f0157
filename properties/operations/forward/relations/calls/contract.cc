// A kernel refuses a problem with a reason before it launches anything, or computes it right. The drawn case is
// run as it is; a refusal with a reason passes. Then plan() gets contradictory problems, each one change
// away from the case, and must refuse each with a reason. plan() also gets problems larger than any
// memory, which reveals sizes that are kept in 32 bits. And it gets each variant that the kernel
// declares; each must have its own plan.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "properties/judge/bad_plan.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

struct Offer {
  attn_problem problem;
  attn_tensors tensors;
  attn_env env;
};

struct Nonsense {
  const char* name;
  std::function<void(Offer&)> change;
};

int64_t too_wide(const attn_problem& p) { return (p.features & ATTN_FEATURE_WIDE) != 0 ? 1025 : 257; }

std::vector<Nonsense> nonsense_numbers() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  constexpr int64_t kHuge = int64_t{1} << 40, kLowest = std::numeric_limits<int64_t>::min();
  return {
      {"problem.size = 0", [](Offer& x) { x.problem.size = 0; }},
      {"problem.size below the first contract's", [](Offer& x) { x.problem.size = ATTN_PROBLEM_MIN - 8; }},
      {"tensors.size = 0", [](Offer& x) { x.tensors.size = 0; }},
      {"env.size = 0", [](Offer& x) { x.env.size = 0; }},
      {"dtype = -1 (none)", [](Offer& x) { x.problem.dtype = ATTN_NONE; }},
      {"dtype = 7", [](Offer& x) { x.problem.dtype = 7; }},
      {"dim_qk = 0", [](Offer& x) { x.problem.dim_qk = 0; }},
      {"dim_qk above 256, or above 1024 if wide", [](Offer& x) { x.problem.dim_qk = too_wide(x.problem); }},
      {"dim_v = 0", [](Offer& x) { x.problem.dim_v = 0; }},
      {"dim_v above 256, or above 1024 if wide", [](Offer& x) { x.problem.dim_v = too_wide(x.problem); }},
      {"dim_v = -64", [](Offer& x) { x.problem.dim_v = -64; }},
      {"dim_qk = 2^32 + 64", [](Offer& x) { x.problem.dim_qk = (int64_t{1} << 32) + 64; }},
      {"heads_kv = 0", [](Offer& x) { x.problem.heads_kv = 0; }},
      {"heads_kv = -1", [](Offer& x) { x.problem.heads_kv = -1; }},
      {"heads_q not a multiple of heads_kv",
       [](Offer& x) {
         x.problem.heads_kv = 2;
         x.problem.heads_q = 3;
       }},
      {"heads_kv larger than heads_q", [](Offer& x) { x.problem.heads_kv = 2 * x.problem.heads_q; }},
      {"batch = -1", [](Offer& x) { x.problem.batch = -1; }},
      {"seq_q = -1", [](Offer& x) { x.problem.seq_q = -1; }},
      {"seq_k = -64", [](Offer& x) { x.problem.seq_k = -64; }},
      {"seq_k = -2^63", [](Offer& x) { x.problem.seq_k = kLowest; }},
      {"sizes whose product leaves 64 bits",
       [](Offer& x) { x.problem.batch = x.problem.heads_q = x.problem.heads_kv = x.problem.seq_q = kHuge; }},
      {"num_splits = -1", [](Offer& x) { x.problem.num_splits = -1; }},
      {"scale = NaN", [](Offer& x) { x.problem.scale = kNan; }},
      {"scale = inf", [](Offer& x) { x.problem.scale = kInf; }},
      {"softcap = -1", [](Offer& x) { x.problem.softcap = -1; }},
      {"softcap = NaN", [](Offer& x) { x.problem.softcap = kNan; }},
      {"softcap = inf", [](Offer& x) { x.problem.softcap = kInf; }},
      {"align = 2", [](Offer& x) { x.problem.align = 2; }},
      {"bias_dtype = 9", [](Offer& x) { x.problem.bias_dtype = 9; }},
  };
}

std::vector<Nonsense> nonsense_pointers() {
  return {
      {"a bias without data",
       [](Offer& x) {
         x.problem.bias_dtype = ATTN_F32;
         x.tensors.bias.data = nullptr;
       }},
      {"a mask without data",
       [](Offer& x) {
         x.problem.has_mask = 1;
         x.tensors.mask.data = nullptr;
       }},
      {"key lengths without data",
       [](Offer& x) {
         x.problem.has_key_lengths = 1;
         x.tensors.key_lengths = nullptr;
       }},
      {"q without data", [](Offer& x) { x.tensors.q.data = nullptr; }},
      {"k without data", [](Offer& x) { x.tensors.k.data = nullptr; }},
      {"v without data", [](Offer& x) { x.tensors.v.data = nullptr; }},
      {"o without data", [](Offer& x) { x.tensors.o.data = nullptr; }},
      {"o without data, although its rows must become 0 because there are no keys",
       [](Offer& x) {
         x.problem.seq_k = 0;
         x.tensors.o.data = nullptr;
       }},
      {"env.variant = -1", [](Offer& x) { x.env.variant = -1; }},
  };
}

// Removes zero sizes, so that the kernel cannot return before it has checked the problem.
bool adapt_contract(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.batch == 0) p.batch = 1;
  if (p.seq_q == 0) p.seq_q = 1;
  if (p.seq_k == 0) p.seq_k = 1;
  if (p.key_lengths) p.key_lengths->resize(p.batch, p.seq_k);
  fit_memory(c);
  return true;
}

// Asks for packed queries with the sizes of a dense call.
void pack_queries(Offer& x) {
  x.problem.features |= ATTN_FEATURE_RAGGED;
  x.problem.ragged = ATTN_RAGGED_QUERIES;
  x.problem.total_q = x.problem.seq_q;
}

std::vector<Nonsense> nonsense_packing() {
  return {{"packed queries without cu_q", [](Offer& x) { pack_queries(x), x.tensors.cu_q = nullptr; }},
          {"ragged = 4", [](Offer& x) { pack_queries(x), x.problem.ragged = 4; }},
          {"ragged = 0 with its feature bit", [](Offer& x) { pack_queries(x), x.problem.ragged = 0; }},
          {"total_q = -1", [](Offer& x) { pack_queries(x), x.problem.total_q = -1; }},
          {"total_k = 1 where keys are not packed", [](Offer& x) { pack_queries(x), x.problem.total_k = 1; }}};
}

// Asks for pages with the tensors of a dense call. plan() reads neither lengths nor tables.
void put_in_pages(Offer& x) {
  x.problem.features |= ATTN_FEATURE_PAGED;
  x.problem.page_size = 16;
  x.problem.pages = 1;
  x.problem.pages_per_seq = x.problem.seq_k / 16 + 2;
  x.problem.has_key_lengths = 1;
  void* some = std::bit_cast<void*>(std::bit_cast<uintptr_t>(x.tensors.q.data) & ~uintptr_t{63});
  x.tensors.key_lengths = static_cast<const int64_t*>(some);
  x.tensors.block_table = {some, {x.problem.pages_per_seq, 1, 1, 1}};
}

std::vector<Nonsense> nonsense_pages() {
  return {
      {"pages without a block table", [](Offer& x) { put_in_pages(x), x.tensors.block_table.data = nullptr; }},
      {"page_size = 0 with its feature bit", [](Offer& x) { put_in_pages(x), x.problem.page_size = 0; }},
      {"page_size = -16", [](Offer& x) { put_in_pages(x), x.problem.page_size = -16; }},
      {"pages = -1", [](Offer& x) { put_in_pages(x), x.problem.pages = -1; }},
      {"a block table with too few entries for seq_k",
       [](Offer& x) { put_in_pages(x), x.problem.pages_per_seq = 0; }},
      {"a block table whose entries lie apart",
       [](Offer& x) { put_in_pages(x), x.tensors.block_table.stride[3] = 2; }},
      {"pages without key lengths", [](Offer& x) { put_in_pages(x), x.problem.has_key_lengths = 0; }}};
}

// Asks for 8-bit K and V with the tensors of a 16-bit call. plan() reads no element.
void make_narrow(Offer& x) {
  x.problem.features |= ATTN_FEATURE_KV8;
  x.problem.kv_dtype = ATTN_E4M3;
  void* some = std::bit_cast<void*>(std::bit_cast<uintptr_t>(x.tensors.q.data) & ~uintptr_t{63});
  x.tensors.k_scale = x.tensors.v_scale = {some, {0, 0, 0, 1}};
}

std::vector<Nonsense> nonsense_scales() {
  return {{"8-bit K and V without k_scale", [](Offer& x) { make_narrow(x), x.tensors.k_scale.data = nullptr; }},
          {"8-bit K and V without v_scale", [](Offer& x) { make_narrow(x), x.tensors.v_scale.data = nullptr; }},
          {"kv_dtype = 0 with its feature bit", [](Offer& x) { make_narrow(x), x.problem.kv_dtype = 0; }},
          {"kv_dtype = bf16", [](Offer& x) { make_narrow(x), x.problem.kv_dtype = ATTN_BF16; }},
          {"kv_dtype = 5", [](Offer& x) { make_narrow(x), x.problem.kv_dtype = 5; }}};
}

// Asks for keys that stand for blocks, with the tensors of a dense call.
void make_key_blocks(Offer& x, int64_t step, int64_t offset) {
  x.problem.features |= ATTN_FEATURE_KEY_STEP;
  x.problem.key_step = step, x.problem.key_offset = offset;
}

std::vector<Nonsense> nonsense_blocks() {
  return {{"key_step = 0 with its feature bit", [](Offer& x) { make_key_blocks(x, 0, 0); }},
          {"key_step = -1", [](Offer& x) { make_key_blocks(x, -1, 0); }},
          {"key_step = 2^17", [](Offer& x) { make_key_blocks(x, int64_t{1} << 17, 0); }},
          {"key_offset = 2^17", [](Offer& x) { make_key_blocks(x, 1, int64_t{1} << 17); }},
          {"key_offset = -1", [](Offer& x) { make_key_blocks(x, 1, -1); }}};
}

PlanReply plan(Trial& trial, const Offer& offer) {
  return trial.target().plan(offer.problem, offer.tensors, offer.env);
}

bool refuses_nonsense(Trial& trial, const Offer& sense) {
  std::vector<Nonsense> all = nonsense_numbers();
  std::ranges::move(nonsense_pointers(), std::back_inserter(all));
  if ((trial.target().info().features & ATTN_FEATURE_RAGGED) != 0)
    std::ranges::move(nonsense_packing(), std::back_inserter(all));
  if ((trial.target().info().features & ATTN_FEATURE_PAGED) != 0)
    std::ranges::move(nonsense_pages(), std::back_inserter(all));
  if ((trial.target().info().features & ATTN_FEATURE_KV8) != 0 && !sense.problem.latent)
    std::ranges::move(nonsense_scales(), std::back_inserter(all));
  if ((trial.target().info().features & ATTN_FEATURE_KEY_STEP) != 0 && !sense.problem.has_alibi)
    std::ranges::move(nonsense_blocks(), std::back_inserter(all));
  if ((trial.target().info().features & ATTN_FEATURE_F32) == 0)
    all.push_back({"dtype = fp32", [](Offer& x) { x.problem.dtype = ATTN_F32; }});
  if (sense.problem.latent)
    all.push_back(
        {"a latent V of more columns than K", [](Offer& x) { x.problem.dim_v = x.problem.dim_qk + 1; }});
  for (const Nonsense& nonsense : all) {
    Offer offer = sense;
    nonsense.change(offer);
    const PlanReply reply = plan(trial, offer);
    if (reply.status == ATTN_OK) {
      trial.fail(Kind::kRefusal, std::string("plan() accepted nonsense: ") + nonsense.name);
      return false;
    }
    Verdict v;
    accept_plan(reply, v);
    if (v.outcome == Outcome::kFail) {
      trial.fail(v.kind, std::string(nonsense.name) + ": " + v.message);
      return false;
    }
  }
  return true;
}

// If a size grows and the path stays the same, the workspace must not shrink. The size is doubled around 2^31
// and 2^32 bytes of workspace; far smaller workspaces are skipped.
bool counts_in_64_bits(Trial& trial, const Offer& sense) {
  // A plan with twice this workspace is still within what a plan may ask for.
  constexpr uint64_t kRoom = Arena::kSlotBytes / 8;
  constexpr uint64_t kSmall = uint64_t{1} << 29;
  constexpr int64_t kMost = int64_t{1} << 40;  // rows
  for (const auto& [name, size] :
       {std::pair{"batch", &attn_problem::batch}, std::pair{"seq_q", &attn_problem::seq_q}}) {
    std::optional<attn_plan> smaller;
    Offer offer = sense;
    const auto room = [&] { return kMost / offer.problem.heads_q / offer.problem.batch / offer.problem.seq_q; };
    while (room() > 0) {
      const PlanReply reply = plan(trial, offer);
      const std::string at = std::string(name) + " = " + std::to_string(offer.problem.*size) + ": ";
      const bool bad = reply.bad_plan || (reply.status == ATTN_OK && bad_plan(reply.plan));
      if (bad && smaller && smaller->workspace_bytes > kRoom) break;
      Verdict v;
      if (!accept_plan(reply, v)) {
        if (v.outcome != Outcome::kFail) break;
        trial.fail(v.kind, at + v.message);
        return false;
      }
      const attn_plan& larger = reply.plan;
      if (smaller && larger.workspace_bytes < smaller->workspace_bytes &&
          larger.num_splits == smaller->num_splits && std::string_view(larger.path) == smaller->path) {
        trial.fail(Kind::kBadPlan, at + "a workspace of " + std::to_string(larger.workspace_bytes) +
                                       " bytes, and of " + std::to_string(smaller->workspace_bytes) +
                                       " for a smaller one: count its bytes in 64 bits");
        return false;
      }
      smaller = larger;
      const uint64_t times = std::bit_floor(kSmall / std::max<uint64_t>(larger.workspace_bytes, 1));
      offer.problem.*size *= std::clamp<int64_t>(static_cast<int64_t>(times), 2, std::max<int64_t>(room(), 2));
    }
  }
  return true;
}

// The plans of a problem in each variant that takes it; nothing if one of them is a failure.
std::optional<std::vector<std::pair<std::string, attn_plan>>> plans_of_variants(Trial& trial, Offer offer) {
  const std::vector<std::string>& names = trial.target().info().variants;
  std::vector<std::pair<std::string, attn_plan>> plans;
  for (size_t n = 0; n < names.size(); ++n) {
    offer.env.variant = static_cast<int32_t>(n + 1);
    const PlanReply reply = plan(trial, offer);
    Verdict v;
    if (accept_plan(reply, v)) {
      plans.emplace_back(names[n], reply.plan);
    } else if (v.outcome == Outcome::kFail) {
      trial.fail(v.kind, "variant " + names[n] + ": " + v.message);
      return std::nullopt;
    }
  }
  return plans;
}

// One head, dense, without any feature.
Offer plain(Trial& trial, const Offer& like, int64_t dim, int64_t length, int32_t causal) {
  Offer offer = like;
  attn_problem& p = offer.problem;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.seq_q = p.seq_k = length;
  p.dim_qk = p.dim_v = dim;
  p.causal = causal;
  p.window_left = p.window_right = -1;
  p.bias_dtype = ATTN_NONE;
  p.has_mask = p.has_key_lengths = 0;
  p.softcap = 0;
  p.latent = 0;
  p.features &= ~(ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT);
  attn_tensors& t = offer.tensors;
  for (const auto& [id, tensor] : {std::pair{TensorId::kQ, &t.q}, std::pair{TensorId::kK, &t.k},
                                   std::pair{TensorId::kV, &t.v}, std::pair{TensorId::kO, &t.o}}) {
    *tensor = {trial.target().arena().slot(id), {length * dim, length * dim, dim, 1}};
  }
  t.lse = {trial.target().arena().slot(TensorId::kLse), {length, length, 1, 1}};
  return offer;
}

// Variants must differ in their plans, at least in `path`. Two variants may be equal for some problems. Two
// variants count as one if they have the same plan for every one of a list of problems with different
// dimensions and lengths.
bool tells_variants_apart(Trial& trial, const Offer& sense) {
  std::vector<Offer> offers = {sense};
  for (const int64_t dim : {32, 64, 128, 256}) {
    for (const int64_t length : {1, 65, 2048}) {
      for (const int32_t causal : {0, 1}) offers.push_back(plain(trial, sense, dim, length, causal));
    }
  }
  std::string same;
  for (const Offer& offer : offers) {
    const auto plans = plans_of_variants(trial, offer);
    if (!plans) return false;
    if (plans->size() < 2) continue;
    const auto& [first, plan] = plans->front();
    for (const auto& [name, other] : *plans) {
      if (std::memcmp(&plan, &other, sizeof plan) != 0) return true;
    }
    same = first + " and " + plans->at(1).first;
  }
  if (same.empty()) return true;
  trial.fail(Kind::kBadPlan,
             "variants " + same +
                 " have the same plan for every problem: choose by env.variant, and name the variant in "
                 "plan.path");
  return false;
}

void ask(Trial& trial) {
  if (auto why = illegal(trial.base())) return trial.reject("cannot be run: " + *why);
  LaidOut laid(trial.base(), trial.target().arena());
  trial.target().memory(laid.ranges());
  Offer sense = {laid.problem(), laid.tensors(), laid.env()};
  sense.env.backend = trial.target().info().backend;
  refuses_nonsense(trial, sense) && counts_in_64_bits(trial, sense) && tells_variants_apart(trial, sense);
}

void check_contract(Trial& trial) {
  if (trial.run(trial.base())) return;
  // The contract is fulfilled by a refusal with a reason.
  Verdict& v = trial.verdict();
  if (v.outcome == Outcome::kRefused) v.outcome = Outcome::kPass;
}

}  // namespace

extern const Property contract = {
    .name = "contract",
    .statement = "any problem is refused with a reason before launch, or answered right",
    .adapt = adapt_contract,
    .check = check_contract,
    .compares = false,
    .ask = ask};

}  // namespace attnfuzz::relations
