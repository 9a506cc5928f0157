// make_night DIR KERNEL [green|waits|hostile]: writes a fabricated campaign for a test of its page.
#include <cstdio>
#include <string>

#include "tests/fuzz/report/night.h"

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: %s DIR KERNEL [green|waits|hostile]\n", argv[0]);
    return 2;
  }
  const std::string how = argc > 3 ? argv[3] : "";
  attnfuzz::make_night(
      argv[1], {.hostile = how == "hostile", .green = how == "green" || how == "waits", .kernel = argv[2]});
  if (how == "waits")
    attnfuzz::write_crash(argv[1], {.id = "waits", .target = "fa1.cpu.plain", .property = "reference"}, {});
}
