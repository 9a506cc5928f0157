// A library that is no kernel library.
extern "C" int something_else() { return 1; }
