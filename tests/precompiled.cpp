// Empty source for the precompiled headers of external libraries that all tests use (see
// CMakeLists.txt here).
