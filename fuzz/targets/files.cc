// The readers of cases, reproducers and units, on bytes of any kind: what is read must
// be written and read back as the same, whatever is not must be refused with a reason,
// and nothing in between. Compiled with its readers instrumented, in this process.
//
// Bytes are mutated as libFuzzer would, and one time in two as a case: then they
// still decode, and reach what lies behind the first wrong byte.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz/targets/unit.h"
#include "properties/case/codec.h"
#include "properties/case/words.h"
#include "properties/draw/mutate.h"
#include "properties/reduce/reproducer.h"

// libFuzzer's own; not there in a replay.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace attnfuzz;

// An assert that names what was wrong, and is there in every build.
void hold(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "attnfuzz: %s\n", what);
  std::abort();
}

void one_line(const DecodeError& error) {
  hold(!error.message.empty(), "a refusal without a reason");
  hold(error.message.size() < 4096, "a refusal longer than anyone reads");
}

bool read_case(std::string_view bytes) {
  const auto read = decode(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error), false;
  const Case& c = std::get<Case>(read);
  const std::string text = encode(c);
  const auto again = decode(text);
  hold(std::holds_alternative<Case>(again), "what encode() wrote is refused");
  hold(std::get<Case>(again) == c, "a case is another one after it was written and read");
  hold(encode(std::get<Case>(again)) == text, "the text of a case is not canonical");
  // Contradictions that the reader lets pass are found here, before anything is allocated.
  if (!illegal(c)) describe(c);
  return true;
}

bool read_reproducer(std::string_view bytes) {
  const auto read = decode_reproducer(bytes);
  if (const auto* error = std::get_if<DecodeError>(&read)) return one_line(*error), false;
  const Reproducer& r = std::get<Reproducer>(read);
  const std::string text = encode(r, "file.attn.json");
  const auto again = decode_reproducer(text);
  hold(std::holds_alternative<Reproducer>(again), "a reproducer that was written is refused");
  hold(std::get<Reproducer>(again).c == r.c,
       "a reproducer's case is another one after it was written and read");
  hold(encode(std::get<Reproducer>(again), "file.attn.json") == text,
       "the text of a reproducer is not canonical");
  hold(!reproducer_name(r).empty(), "a reproducer without a name");
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) { return 0; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const bool is_case = read_case(bytes), is_reproducer = read_reproducer(bytes);
  hold(!(is_case && is_reproducer), "one text read as two kinds of file");
  hold(case_of(bytes).has_value() == (is_case || is_reproducer), "a unit is not what its text is");
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (seed % 2 == 0 || !LLVMFuzzerMutate) {
    const std::string next = mutated({reinterpret_cast<const char*>(data), size}, Aim{}, seed, max_size);
    if (!next.empty()) {
      std::memcpy(data, next.data(), next.size());
      if (seed % 4 == 0 || !LLVMFuzzerMutate) return next.size();
      size = next.size();
    }
  }
  return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, max_size) : size;
}
