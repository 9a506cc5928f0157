// hash_of_values(), compiled with fused multiply-adds (tests/properties/CMakeLists.txt), in another namespace.
#define attnfuzz attnfuzz_contracted
#include "tests/properties/data/drawn_values.h"
#undef attnfuzz

uint64_t contracted_hash_of_values(uint64_t seed) { return attnfuzz_contracted::hash_of_values(seed); }
