#include "properties/case/tidy.h"

#include "properties/case/features/feature.h"

namespace attnfuzz {

void tidy(Case& c) {
  for (const Feature* feature : all_features()) feature->tidy(c);
}

}  // namespace attnfuzz
