#include "sim/base/files.hpp"
