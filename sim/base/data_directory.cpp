#include "sim/base/data_directory.hpp"
