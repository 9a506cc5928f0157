// make_night DIR KERNEL: writes the fabricated campaign for a test that looks at its page.
#include <cstdio>

#include "tests/fuzz/report/night.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DIR KERNEL\n", argv[0]);
    return 2;
  }
  attnfuzz::make_night(argv[1], {.kernel = argv[2]});
}
