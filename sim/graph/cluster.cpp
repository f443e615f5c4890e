#include "sim/graph/cluster.hpp"
