# Defines the target Trainyard::trainyard: find_package(Trainyard), then target_link_libraries(mine PRIVATE Trainyard::trainyard).
include(CMakeFindDependencyMacro)
find_dependency(Boost)
find_dependency(nlohmann_json)
find_dependency(fmt)
include("${CMAKE_CURRENT_LIST_DIR}/Trainyard.cmake")
