#include <string>

#include "properties/case/words.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

std::string describe(const Step& step) {
  std::string names;
  for (const int64_t n : step.entries) names += (names.empty() ? "s" : " s") + std::to_string(n);
  const std::string count = std::to_string(step.count);
  std::string counts;  // "3+0+1"
  for (const int64_t n : step.counts) counts += (counts.empty() ? "" : "+") + std::to_string(n);
  const auto rows = [&](const char* what) {
    return counts.empty() ? several(step.count, what) : counts + " " + what + "s";
  };
  std::string text;
  switch (step.verb) {
    case Verb::kNew:
      text = "new " + names;
      break;
    case Verb::kAppend:
      text = "append " + rows("token") + " to " + names;
      break;
    case Verb::kAttend:
      text = "attend with the last " + rows("position") + " of " + names;
      if (step.split > 0) text += ", " + several(step.split, "page") + " apart";
      break;
    case Verb::kFork:
      text = "fork s" + std::to_string(step.entries[0]) + " to s" + std::to_string(step.entries[1]);
      break;
    case Verb::kTruncate:
      text = "truncate " + names + " to " + several(step.count, "token");
      break;
    case Verb::kFree:
      text = "free " + names;
      break;
    case Verb::kMove:
      text = "move page " + count + " of " + names;
      break;
    case Verb::kReplay:
      text = "replay step " + count;
      break;
  }
  if (step.kernel != 0) text += ", kernel " + std::to_string(step.kernel);
  if (step.stream != 0) text += ", stream " + std::to_string(step.stream);
  return text;
}

std::string describe(const Setup& s) {
  std::string text = several(s.pages, "page") + " of " + several(s.page_size, "key") + ", capacity " +
                     std::to_string(s.capacity) + ", heads " + std::to_string(s.heads_q) + "/" +
                     std::to_string(s.heads_kv) + ", D=" + std::to_string(s.dim_qk) + "/" +
                     std::to_string(s.dim_v) + (s.dtype == ATTN_F16 ? " f16" : " bf16");
  if (s.slots_first) text += ", slots before heads";
  if (s.index_dtype == ATTN_INDEX_32) text += ", int32 tables";
  if (s.beyond > 0) text += ", table " + std::to_string(s.beyond) + " wider";
  if (s.order != 0) text += ", pages in no order";
  text += std::string(", tail ") + kTailNames[static_cast<size_t>(s.tail)] + ", workspace " +
          kWorkspaceNames[static_cast<size_t>(s.workspace)];
  return text;
}

}  // namespace attnfuzz::sequences
