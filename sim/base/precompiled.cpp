// Empty: a translation unit for the third-party headers that CMake precompiles for all libraries
// (see the top CMakeLists.txt).
