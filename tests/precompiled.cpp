// Empty: the headers of other projects, precompiled for every test (see CMakeLists.txt here).
