// Empty: the headers of other projects, precompiled for every box (see the top CMakeLists.txt).
