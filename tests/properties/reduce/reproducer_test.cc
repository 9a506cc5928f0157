#include "properties/reduce/reproducer.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/properties/support/random_case.h"
namespace attnfuzz {
namespace {

Reproducer example() {
  Reproducer r;
  r.c.problem.seq_q = r.c.problem.seq_k = 65;
  r.c.problem.causal = true;
  r.property = "reference";
  r.kernel = "fa1";
  r.build_hash = "0123456789abcdef0123456789abcdef";
  r.compiler = "clang 19.1";
  r.flags = "-O2";
  r.path = "64x64 d64 mma";
  r.kind = "non-finite";
  r.message = "o(0,0,0,0) is NaN, 1 is due";
  r.shape = "only query tile 0; all NaN";
  r.needs = {{.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = "seq_k >= 65"},
             {.part = "causal", .refused = true, .text = "causal (top-left)"}};
  r.indifferent = {"dtype", "batch"};
  r.digests[0] = 0x1234;
  r.digests[3] = ~uint64_t{0};
  return r;
}

bool same(const Reproducer& a, const Reproducer& b) {
  return a.c == b.c && a.property == b.property && a.kernel == b.kernel && a.peer == b.peer &&
         a.backend == b.backend && a.build_hash == b.build_hash && a.compiler == b.compiler &&
         a.flags == b.flags && a.device == b.device && a.kind == b.kind && a.message == b.message &&
         a.shape == b.shape && a.path == b.path && a.needs == b.needs && a.indifferent == b.indifferent &&
         a.digests == b.digests;
}

std::string error_of(std::string_view text) {
  const auto decoded = decode_reproducer(text);
  const auto* error = std::get_if<DecodeError>(&decoded);
  return error ? error->message : "";
}

// The text with `what` replaced by `by`.
std::string with(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(Reproducer, ReadsBackWhatItWrote) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Reproducer r = example();
    r.c = random_case(seed);
    r.backend = seed % 2 == 0 ? ATTN_CPU : ATTN_CUDA;
    if (seed % 3 == 0) r.shape.clear();
    if (seed % 7 == 0) r.peer = "./libyesterday.so:fast";
    if (seed % 5 == 0) r.needs.clear(), r.digests = {}, r.flags.clear();
    r.message = "quotes \" and \\ and \n and \u00b1";
    const std::string text = encode(r, "a.attn.json");
    const auto decoded = decode_reproducer(text);
    ASSERT_TRUE(std::holds_alternative<Reproducer>(decoded)) << std::get<DecodeError>(decoded).message << text;
    EXPECT_TRUE(same(std::get<Reproducer>(decoded), r)) << text;
    EXPECT_EQ(encode(std::get<Reproducer>(decoded), "a.attn.json"), text);
  }
}

TEST(Reproducer, ReadsWellFromTheTop) {
  const std::string text = encode(example(), "fa1-non-finite-3fb2c1.attn.json");
  EXPECT_TRUE(text.starts_with(
      "{\n  \"replay\": \"attnfuzz replay fa1-non-finite-3fb2c1.attn.json\",\n  \"message\": "));
  EXPECT_TRUE(text.ends_with("}\n"));
  size_t at = 0;
  for (const char* name : {"replay", "message", "about", "kind", "shape", "needs", "indifferent", "case",
                           "property", "kernel", "backend", "path", "build", "digests", "reproducer"}) {
    const size_t found = text.find("\n  \"" + std::string(name) + "\":");
    EXPECT_NE(found, std::string::npos) << name;
    EXPECT_GT(found, at) << name;
    at = found;
  }
  EXPECT_NE(text.find("\"q\": \"0000000000001234\""), std::string::npos);
}

TEST(Reproducer, QuotesTheFileNameForAShell) {
  EXPECT_NE(encode(example(), "it's.attn.json").find("attnfuzz replay 'it'\\\\''s.attn.json'"),
            std::string::npos);
  Reproducer r = example();
  r.peer = "./libyesterday.so";
  EXPECT_NE(encode(r, "a.attn.json").find("a.attn.json --peer ./libyesterday.so\""), std::string::npos);
}

TEST(Reproducer, RefusesWithTheFieldsName) {
  const std::string good = encode(example(), "x.attn.json");
  EXPECT_EQ(error_of(good), "");
  EXPECT_NE(error_of("").find("not JSON"), std::string::npos);
  EXPECT_NE(error_of("[1]").find("an array of 1"), std::string::npos);
  EXPECT_NE(error_of("{}").find("reproducer is missing"), std::string::npos);
  EXPECT_NE(error_of(encode(Case{})).find("bare case"), std::string::npos);
  EXPECT_NE(error_of(with(good, "\"reproducer\": 1", "\"reproducer\": 2")).find("reads format 1"),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "\"kind\": \"non-finite\"", "\"kind\": 3")).find("kind is 3"),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "\"property\"", "\"propperty\"")).find("property is missing"),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "\"kernel\"", "\"novel\": 1, \"kernel\"")).find("novel is not a field"),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "\"hash\"", "\"hush\"")).find("build.hush is not a field"), std::string::npos);
  EXPECT_NE(error_of(with(good, "\"backend\": \"cpu\"", "\"backend\": \"tpu\"")).find("\"cpu\" or \"cuda\""),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "0000000000001234", "1234")).find("digests.q"), std::string::npos);
  EXPECT_NE(error_of(with(good, "\"q\": \"0", "\"z\": \"0")).find("digests.z is not a tensor"),
            std::string::npos);
  EXPECT_NE(error_of(with(good, "\"seq_q\"", "\"seq_qq\"")).find("case: "), std::string::npos);
  EXPECT_NE(error_of(std::string(1 << 20, '[')).find("nested"), std::string::npos);
  EXPECT_EQ(error_of(with(good, "\"kernel\"", "\"kernel\": \"splitk\", \"kernel\"")),
            "a field is given twice, may be given once: kernel");
  const std::string long_text(1 << 20, 'x');
  for (const auto& [what, by] : {std::pair("\"backend\": \"cpu\"", "\"backend\": \"" + long_text + "\""),
                                 std::pair("\"hash\"", "\"" + long_text + "\""),
                                 std::pair("\"q\": \"0", "\"" + long_text + "\": \"0")}) {
    EXPECT_LT(error_of(with(good, what, by)).size(), 300u) << what;
  }
}

TEST(Reproducer, TruncatedOrAlteredTextNeverThrows) {
  const std::string good = encode(example(), "x.attn.json");
  for (size_t n = 0; n < good.size(); ++n) {
    if (n + 2 < good.size()) EXPECT_NE(error_of(good.substr(0, n)), "");
    for (const char ch : {'"', '{', '\xff', '9', ','}) {
      std::string altered = good;
      altered[n] = ch;
      error_of(altered);
    }
  }
}

TEST(Reproducer, NameIsShortStableAndALegalFileName) {
  Reproducer r = example();
  const std::string name = reproducer_name(r);
  EXPECT_TRUE(name.starts_with("fa1-non-finite-")) << name;
  EXPECT_EQ(name.size(), std::string("fa1-non-finite-").size() + 6);
  // Fields that say nothing about the bug do not change the name.
  Reproducer other = r;
  other.message = "another";
  other.build_hash = "1";
  other.c.problem.seq_q = 66;
  other.c.q.seed = 3;
  EXPECT_EQ(reproducer_name(other), name);
  other.c.problem.causal = false;
  EXPECT_NE(reproducer_name(other), name);
  r.kernel = "/somewhere/lib plug-in.so.1";
  EXPECT_TRUE(reproducer_name(r).starts_with("lib-plug-in-non-finite-")) << reproducer_name(r);
}

TEST(Verdict, EveryKindHasANameAndAClass) {
  for (int k = 0; k <= static_cast<int>(Kind::kCrash); ++k) {
    EXPECT_STRNE(to_string(static_cast<Kind>(k)), "");
    EXPECT_EQ(std::string(kind_class(static_cast<Kind>(k))) == "none", k == 0);
  }
  KernelInfo kernel;
  kernel.name = "fa1";
  Verdict wrong, relation, crash;
  wrong.kind = Kind::kWrong;
  relation.kind = Kind::kRelation;
  crash.kind = Kind::kCrash;
  EXPECT_EQ(reduction_key(kernel, wrong), reduction_key(kernel, relation));
  EXPECT_NE(reduction_key(kernel, wrong), reduction_key(kernel, crash));
  KernelInfo asan = kernel;
  asan.build_kind = "asan";
  EXPECT_NE(reduction_key(kernel, wrong), reduction_key(asan, wrong));
}

}  // namespace
}  // namespace attnfuzz
