// Exceptions where the C library has no _dl_find_object: dlsym finds nothing here, so that
// cmake/portable/old_glibc.c looks through the loaded objects itself, as it does on glibc 2.34.
#include <dlfcn.h>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" void* dlsym(void*, const char*) noexcept { return nullptr; }

int main() {
  int caught = 0;
  try {
    throw std::runtime_error("thrown here");
  } catch (const std::exception& error) {
    caught += std::string(error.what()) == "thrown here";
  }
  try {
    (void)std::vector<int>().at(1);  // thrown by the library's code
  } catch (const std::out_of_range&) {
    ++caught;
  }
  std::random_device random;
  const bool differ = random() != random() || random() != random();
  if (caught == 2 && differ) return 0;
  std::fprintf(stderr, "caught %d of 2 exceptions; random numbers %s\n", caught, differ ? "differ" : "are one");
  return 1;
}
