#include "properties/case/codec/codec.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

using SortedJson = nlohmann::json;

Case decoded(const std::string& text) {
  auto result = decode(text);
  if (const auto* error = std::get_if<DecodeError>(&result)) ADD_FAILURE() << error->message << "\n" << text;
  return std::holds_alternative<Case>(result) ? std::get<Case>(std::move(result)) : Case{};
}

std::string refusal(const std::string& text) {
  auto result = decode(text);
  const auto* error = std::get_if<DecodeError>(&result);
  return error != nullptr ? error->message : "";
}

// A case in which every field differs from its default.
Case full_case() {
  const Fill fill{.kind = FillKind::kBlocks, .exponent = -3, .seed = ~uint64_t{0}};
  const Pattern pattern{.kind = PatternKind::kDeadTiles, .parameter = 16, .seed = 5};
  const Broadcast broadcast{.batch = true, .head = true, .query = true};
  const Axis axis{.multiply = -3, .add = 7, .modulus = Axis::kKeyLength, .repeat = 2};
  const TensorLayout layout{.order = {2, 0, 1},
                            .offset = 3,
                            .row_gap = 8,
                            .spread = int64_t{1} << 33,
                            .junk_unit_strides = true,
                            .placement = Placement::kPageEnd,
                            .step = 7,
                            .across = true,
                            .backwards = 9};
  Case c;
  c.problem = {.dtype = ATTN_BF16,
               .batch = 2,
               .heads_q = 6,
               .heads_kv = 3,
               .seq_q = 65,
               .seq_k = 129,
               .dim_qk = 72,
               .dim_v = 40,
               .scale = 0.1f,
               .softcap = 30.5f,
               .causal = true,
               .align = ATTN_BOTTOM_RIGHT,
               .window_left = 0,
               .window_right = std::numeric_limits<int64_t>::max(),
               .key_lengths = std::vector<int64_t>{-1, std::numeric_limits<int64_t>::min()},
               .bias = Bias{ATTN_BF16, BiasKind::kVeryNegative, pattern, broadcast, 9},
               .mask = Mask{pattern, broadcast},
               .num_splits = 3,
               .sink = Sink{ATTN_F16, SinkKind::kMixed, 7},
               .slopes = Slopes{SlopeKind::kMixed, true, 8},
               .latent = true,
               .packed_q = Packing{{3, 65}, 4, true},
               .packed_k = Packing{{129, 0}, 1, true},
               .index_dtype = ATTN_INDEX_32,
               .paging = Paging{64, 7, 2, 3, PageJunk::kMixed, true, 1},
               .kv8 = Kv8{KvFormat::kE5m2,
                          {ScaleKind::kApart, true, true, true, 5},
                          {ScaleKind::kHeadOff, true, true, true, 6}},
               .selection = {16, true, 3, SelectionKind::kAnywhere, 1ull << 63, 2, 5, true, 4, 6, 7},
               .key_step = 16,
               .key_offset = 31};
  c.env = {.sm_count = 1,
           .compute_capability = 80,
           .shared_memory_limit = 1024,
           .schedule_seed = 1ull << 63,
           .variant = 2,
           .arithmetic = ATTN_ARITHMETIC_H200};
  c.build_kind = "a \"lane\"\n\u00e9";
  c.q = c.k = c.v = c.o3 = c.gates = fill;
  c.planted = {{.tensor = TensorId::kBias, .b = 1, .h = 2, .s = 3, .d = 4, .bits = 0x7fc00001},
               {.tensor = TensorId::kQ, .bits = 0x7e},
               {}};
  c.copies = {{}, {.from = 3, .to = 1}};
  c.nan_beyond_lengths = true;
  c.layout.fill(layout);
  c.once = {{true, true}, {true, true}, {true, true}};
  c.poison = Poison::kHuge;
  c.want_lse = false;
  c.calls = {{}, {.dirty_workspace = true, .stream = 1}};
  c.remap = {axis, axis, axis, axis, axis, 11, 12, fill, Fill{}, 13};
  return c;
}

void expect_round_trip(const Case& c) {
  const std::string text = encode(c);
  const Case back = decoded(text);
  EXPECT_TRUE(back == c) << text;
  EXPECT_EQ(encode(back), text);
  EXPECT_EQ(SortedJson::parse(text).dump(), text) << "keys are not sorted, or numbers not as JSON writes them";
}

TEST(Codec, RoundTrip) {
  expect_round_trip(Case{});
  expect_round_trip(full_case());
  for (uint64_t seed = 0; seed < 500; ++seed) expect_round_trip(random_case(seed));
}

TEST(Codec, TextIsAsDocumented) {
  EXPECT_EQ(encode(Case{}), R"({"format":1})");
  Case c;
  c.problem.scale = 0.1f;
  c.problem.bias = Bias{};
  c.problem.key_lengths = std::vector<int64_t>{};
  c.k.kind = FillKind::kOneHot;
  c.layout[1].placement = Placement::kPageEnd;
  c.layout[4].order = {0, 2, 1};
  c.planted = {{.bits = 0x7e00}};
  c.calls = {{.stream = 1}, {}};
  EXPECT_EQ(encode(c), R"({"calls":[{"stream":1},{}],"format":1,"k":{"kind":"one_hot"},)"
                       R"("layout":{"k":{"placement":"page_end"},"lse":{"order":[0,2,1]}},)"
                       R"("planted":[{"bits":"0x7e00"}],)"
                       R"("problem":{"bias":{},"key_lengths":[],"scale":0.1}})");
}

TEST(Codec, EveryFieldIsWritten) {
  // Counts the fields, as in case.h, because some values are 0.
  const SortedJson json = SortedJson::parse(encode(full_case()));
  EXPECT_EQ(json.size(), 18u);
  EXPECT_EQ(json["problem"].size(), 29u);
  EXPECT_EQ(json["problem"]["bias"].size(), 5u);
  EXPECT_EQ(json["problem"]["mask"].size(), 2u);
  EXPECT_EQ(json["problem"]["slopes"].size(), 3u);
  EXPECT_EQ(json["problem"]["packed_q"].size(), 3u);
  EXPECT_EQ(json["problem"]["paging"].size(), 7u);
  EXPECT_EQ(json["problem"]["kv8"].size(), 3u);
  EXPECT_EQ(json["problem"]["kv8"]["k"].size(), 5u);
  EXPECT_EQ(json["problem"]["selection"].size(), 11u);
  EXPECT_EQ(json["problem"]["mask"]["visible"].size(), 3u);
  EXPECT_EQ(json["problem"]["mask"]["broadcast"].size(), 3u);
  EXPECT_EQ(json["env"].size(), 6u);
  EXPECT_EQ(json["q"].size(), 3u);  // the version of a fill can only have its default
  EXPECT_EQ(json["planted"][0].size(), 6u);
  EXPECT_EQ(json["layout"].size(), size_t{kTensorCount});
  EXPECT_EQ(json["layout"]["workspace"].size(), 9u);
  EXPECT_EQ(json["once"].size(), 3u);
  EXPECT_EQ(json["once"]["v"].size(), 2u);
  EXPECT_EQ(json["calls"][1].size(), 2u);
  EXPECT_EQ(json["copies"][1].size(), 2u);
  EXPECT_EQ(json["remap"].size(), 10u);
  EXPECT_EQ(json["remap"]["key"].size(), 4u);
}

TEST(Codec, ManyFloatsReadBackTheSame) {
  uint32_t bits = 1;
  for (int n = 0; n < 20000; ++n) {
    bits = bits * 1664525 + 1013904223;
    Case c;
    c.problem.scale = std::bit_cast<float>(bits);
    if (!std::isfinite(c.problem.scale)) continue;
    const std::string text = encode(c);
    ASSERT_EQ(decoded(text).problem.scale, c.problem.scale) << text;
  }
}

TEST(Codec, EqualCasesHaveEqualText) {
  Case a, b;
  a.problem.scale = 0.0f;
  b.problem.scale = -0.0f;
  ASSERT_TRUE(a == b);
  EXPECT_EQ(encode(a), encode(b));
  // Text in another order, with white space, defaults, and numbers in another notation.
  const Case c = decoded(R"( { "problem": {"seq_q": 65, "scale": 1250e-4, "batch": 1}, "format" : 1 } )");
  EXPECT_EQ(encode(c), R"({"format":1,"problem":{"scale":0.125,"seq_q":65}})");
  EXPECT_TRUE(std::signbit(decoded(R"({"format":1,"problem":{"scale":-0.0}})").problem.scale) == false);
}

TEST(Codec, IllegalCasesAreStillWritten) {
  Case c;
  c.problem.dtype = 77;
  c.problem.align = -1;
  c.problem.scale = std::numeric_limits<float>::quiet_NaN();
  c.build_kind = "\xff\xfe";
  c.q.kind = static_cast<FillKind>(200);
  const std::string text = encode(c);
  EXPECT_EQ(SortedJson::parse(text).dump(), text);
  EXPECT_NE(text.find(R"("scale":"0x7fc00000")"), std::string::npos) << text;
  EXPECT_EQ(refusal(text).find("problem.align is -1, must be one of"), 0u) << refusal(text);
}

struct Bad {
  const char* text;
  const char* message;  // the beginning of the refusal
};
const Bad kBad[] = {
    {"", "not JSON: parse error at line 1, column 1"},
    {"{\"format\":1}x", "not JSON: parse error at line 1, column 13"},
    {"{\"format\":1e999}", "not JSON: number overflow"},
    {"[]", "the text is an array of 0, must be an object, a case"},
    {"7", "the text is 7, must be an object, a case"},
    {"{}", "format is missing, must be 1"},
    {R"({"format":2,"new":0})", "format is 2, must be 1"},
    {R"({"format":"1"})", "format is \"1\", must be 1"},
    {R"({"format":1.0})", "format is 1.0, must be 1"},
    {R"({"format":1,"problme":{}})", "problme is not a field of a case: those are calls, copies, dlse, dout, dout_repeated, env, format, gates, k, lane"},
    {R"({"format":1,"problem":{"scael":1}})", "problem.scael is not a field of a problem: those are align, "},
    {R"({"format":1,"problem":{"a\"b":1}})", "problem.\"a\\\"b\" is not a field of a problem"},
    {R"({"format":1,"problem":7})", "problem is 7, must be an object, a problem"},
    {R"({"format":1,"problem":null})", "problem is null, must be an object, a problem"},
    {R"({"format":1,"problem":{"bias":null}})", "problem.bias is null, must be an object, a bias"},
    {R"({"format":1,"problem":{"scale":"1"}})",
     "problem.scale is \"1\", must be a finite number that a float can hold"},
    {R"({"format":1,"problem":{"scale":1e39}})", "problem.scale is 1e+39, must be a finite number"},
    {R"({"format":1,"problem":{"softcap":"0x7f800000"}})",
     "problem.softcap is \"0x7f800000\", must be a finite"},
    {R"({"format":1,"problem":{"causal":1}})", "problem.causal is 1, must be true or false"},
    {R"({"format":1,"problem":{"dtype":"f64"}})",
     "problem.dtype is \"f64\", must be one of \"f16\", \"bf16\", \"f32\""},
    {R"({"format":1,"problem":{"dtype":0}})", "problem.dtype is 0, must be one of \"f16\", \"bf16\""},
    {R"({"format":1,"problem":{"seq_q":1.5}})",
     "problem.seq_q is 1.5, must be an integer in -9223372036854775808..9223372036854775807"},
    {R"({"format":1,"problem":{"seq_q":9223372036854775808}})",
     "problem.seq_q is 9223372036854775808, must be"},
    {R"({"format":1,"problem":{"key_lengths":{}}})",
     "problem.key_lengths is an object, must be an array of at most 1048576"},
    {R"({"format":1,"problem":{"key_lengths":[1,"2"]}})",
     "problem.key_lengths[1] is \"2\", must be an integer"},
    {R"({"format":1,"env":{"arithmetic":"device:h100"}})",
     "env.arithmetic is \"device:h100\", must be one of \"any\", \"device:h200\", \"device:a100\", "
     "\"device:l40s\""},
    {R"({"format":1,"env":{"variant":2147483648}})",
     "env.variant is 2147483648, must be an integer in -2147483648..2147483647"},
    {R"({"format":1,"env":{"schedule_seed":-1}})",
     "env.schedule_seed is -1, must be an integer in 0..18446744073709551615"},
    {R"({"format":1,"q":{"version":2}})", "q.version is 2, must be 1"},
    {R"({"format":1,"q":{"kind":"gauss"}})", "q.kind is \"gauss\", must be one of \"zero\", \"constant\", "},
    {R"({"format":1,"lane":1})", "lane is 1, must be a string"},
    {R"({"format":1,"planted":[{"tensor":"p"}]})", "planted[0].tensor is \"p\", must be one of \"q\", "},
    {R"({"format":1,"planted":[{},{"bits":5}]})", "planted[1].bits is 5, must be bits as \"0x7e00\""},
    {R"({"format":1,"planted":[{"bits":"0x"}]})", "planted[0].bits is \"0x\", must be bits"},
    {R"({"format":1,"planted":[{"bits":"0x-1"}]})", "planted[0].bits is \"0x-1\", must be bits"},
    {R"({"format":1,"planted":[{"bits":"0x1ffffffff"}]})", "planted[0].bits is \"0x1ffffffff\", must be bits"},
    {R"({"format":1,"layout":[]})", "layout is an array of 0, must be an object, layouts by tensor"},
    {R"({"format":1,"layout":{"x":{}}})", "layout.x is not a tensor: those are q, k, v, o, lse"},
    {R"({"format":1,"layout":{"k":{"order":[0,1]}}})",
     "layout.k.order is an array of 2, must be an array of 3"},
    {R"({"format":1,"layout":{"k":{"order":[0,1,3]}}})", "layout.k.order[2] is 3, must be an integer in 0..2"},
    {R"({"format":1,"remap":{"key":{"repeat":true}}})", "remap.key.repeat is true, must be an integer in"},
    {R"({"format":1,"lane":"a","lane":"b"})", "a field is given twice, may be given once: lane"},
};

TEST(Codec, RefusalsNameTheFieldItsValueAndTheLegalValues) {
  for (const Bad& bad : kBad) {
    EXPECT_TRUE(refusal(bad.text).starts_with(bad.message)) << bad.text << "\n" << refusal(bad.text);
  }
}

std::string repeated(const std::string& text, size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (size_t n = 0; n < times; ++n) all += text;
  return all;
}

TEST(Codec, SizesAreBoundedBeforeTheyCost) {
  const auto calls = [](size_t n) { return R"({"format":1,"calls":[{})" + repeated(",{}", n - 1) + "]}"; };
  EXPECT_EQ(decoded(calls(256)).calls.size(), 256u);
  EXPECT_EQ(refusal(calls(257)), "calls is an array of 257, must be an array of at most 256");
  EXPECT_EQ(refusal(R"({"format":1,"planted":[{})" + repeated(",{}", 65536) + "]}"),
            "planted is an array of 65537, must be an array of at most 65536");
  EXPECT_EQ(refusal(R"({"format":1,"problem":{"key_lengths":[0)" + repeated(",0", 1 << 20) + "]}}"),
            "problem.key_lengths is an array of 1048577, must be an array of at most 1048576");
  EXPECT_EQ(refusal(repeated("[", 17)), "the text is nested more than 16 deep");
  EXPECT_EQ(refusal(repeated("[", 1 << 24)), "the text is nested more than 16 deep");
  EXPECT_EQ(refusal(repeated("{\"a\":", 1 << 20)), "the text is nested more than 16 deep");
  EXPECT_EQ(refusal("[0" + repeated(",0", 1 << 21) + "]"), "the text holds more than 2097152 values");
  EXPECT_EQ(refusal(std::string((1 << 24) + 1, ' ')), "the text has 16777217 bytes, may have 16777216");
  const std::string long_message = refusal(R"({"format":1,"prefill":")" + std::string(1 << 20, 'x') + "\"}");
  EXPECT_LT(long_message.size(), 200u) << long_message;
}

TEST(Codec, NoTruncationOrBentByteCrashes) {
  const std::string text = encode(full_case());
  for (size_t n = 0; n < text.size(); ++n) EXPECT_NE(refusal(text.substr(0, n)), "") << n;
  int accepted = 0;
  constexpr std::array<char, 9> kBytes = {'\0', '"', '{', ']', '9', '-', '\\', '\xff', ' '};
  for (size_t n = 0; n < text.size(); ++n) {
    for (size_t turn = 0; turn < 3; ++turn) {  // each turn changes every third byte, to save time
      std::string bent = text;
      bent[n] = kBytes[(n + 4 * turn) % kBytes.size()];
      auto result = decode(bent);
      if (const Case* c = std::get_if<Case>(&result)) {
        ++accepted;
        EXPECT_TRUE(decoded(encode(*c)) == *c) << bent;
      }
    }
  }
  EXPECT_GT(accepted, 0);  // another digit is legal
}

// Replaces each value in turn by `junk`.
void replace_each(SortedJson& root, SortedJson& node, const SortedJson& junk) {
  if (!node.is_structured()) return;
  for (SortedJson& child : node) {
    const SortedJson kept = child;
    child = junk;
    auto result = decode(root.dump());
    if (const Case* c = std::get_if<Case>(&result)) EXPECT_TRUE(decoded(encode(*c)) == *c) << root.dump();
    child = kept;
    replace_each(root, child, junk);
  }
}

TEST(Codec, NoWrongTypeAnywhereCrashes) {
  SortedJson json = SortedJson::parse(encode(full_case()));
  const SortedJson junk[] = {nullptr,
                             true,
                             -1,
                             18446744073709551615ull,
                             1e300,
                             "x",
                             "0xffffffffffff",
                             SortedJson::array(),
                             SortedJson::object(),
                             {{"a", 1}},
                             SortedJson::array({nullptr, 1})};
  for (const SortedJson& value : junk) replace_each(json, json, value);
}

TEST(Codec, DigestsTellCasesApart) {
  const std::string one = digest(Case{}), other = digest(full_case());
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, other);
  EXPECT_EQ(other, digest(decoded(encode(full_case()))));
  EXPECT_EQ(one, "d77123358d63f4268ed1bb1196ab82a4");  // must never change
}

TEST(Codec, StreamDigestDoesNotDependOnTheOrder) {
  EXPECT_EQ(StreamDigest{}.hex(), std::string(32, '0'));
  StreamDigest forward, backward, swapped, halves[2];
  for (uint64_t n = 0; n < 64; ++n) {
    forward.add(n, random_case(n));
    backward.add(63 - n, random_case(63 - n));
    swapped.add(n, random_case(n ^ 1));
    halves[n % 2].add(n, random_case(n));
  }
  EXPECT_EQ(forward.hex(), backward.hex());
  EXPECT_NE(forward.hex(), swapped.hex());
  halves[0].merge(halves[1]);
  EXPECT_EQ(forward.hex(), halves[0].hex());
  // The carry from the low word to the high one.
  StreamDigest sum, one;
  sum.words[0] = ~uint64_t{0};
  one.words[0] = 1;
  sum.merge(one);
  EXPECT_EQ(sum.hex(), "00000000000000010000000000000000");
}

TEST(Codec, EncodesFast) {
  std::vector<Case> cases;
  for (uint64_t n = 0; n < 100; ++n) cases.push_back(random_case(n));
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    size_t bytes = 0;
    for (const Case& c : cases) bytes += encode(c).size();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    ASSERT_GT(bytes, 0u);
    best = std::min(best, took.count() / 100);
  }
  RecordProperty("encode_us", std::to_string(best));
  EXPECT_LT(best, 150) << "microseconds; 1 to 3 on an idle machine";
}

}  // namespace
}  // namespace attnfuzz
