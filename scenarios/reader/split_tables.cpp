// Rows of the sections that split a step beside parallelism (split_checks.hpp has their rules).
#include "scenarios/reader/tables.hpp"
#include "scenarios/reader/words.hpp"

namespace trainyard {

namespace {

constexpr Words<OffloadedOptimizer, 3> kOffloadedOptimizer{{{OffloadedOptimizer::None, "none"},
                                                            {OffloadedOptimizer::Cpu, "cpu"},
                                                            {OffloadedOptimizer::Fetch, "fetch"}}};
constexpr Words<DocumentKind, 3> kDocumentKind{{{DocumentKind::None, "none"},
                                                {DocumentKind::List, "list"},
                                                {DocumentKind::Lognormal, "lognormal"}}};
using V = ParameterServers;
const Field<V> kServers[] = {
    {"servers", "of them; each holds an equal part of the parameters and their state",
     Whole<V>{&V::servers, 1, 250, true}},
    {"dedicated", "they have GPUs of their own, behind the workers'; else the workers' first ones",
     Flag<V>{&V::dedicated}},
    {"staleness", "steps that a worker may be ahead of the slowest; 0 is the synchronous form",
     Whole<V>{&V::staleness, 0}},
    {"asynchronous", "workers run ahead without a bound", Flag<V>{&V::asynchronous}},
    {"steps", "played one after the other; figures are means over them",
     Whole<V>{&V::steps, 1, 1000}},
};

using O = OffloadSettings;
const Field<O> kOffload[] = {
    {"activations", "the share of what a layer keeps for its backward that goes to the host",
     Real<O>{&O::activations, 0.0, 1.0}},
    {"activation_layers", "of the first so many layers of a chunk; 0: of all",
     Whole<O>{&O::activation_layers, 0}},
    {"optimizer", "its state stands on the host, updated by the CPU, or fetched for the GPU",
     word_of<O, &O::optimizer, kOffloadedOptimizer>()},
    {"weights",
     "the layers' weights stand on the host and are fetched for every use; zero_stage 3: all "
     "shards, fetched before they are gathered",
     Flag<O>{&O::weights}},
};

using D = Documents;
const Field<D> kDocuments[] = {
    {"kind", "how documents are packed into sequences", word_of<D, &D::kind, kDocumentKind>()},
    {"lengths", "list: of the documents of every sequence; they add up to sequence_length",
     Wholes<D>{&D::lengths, 1, kLengthMost}},
    {"mean_length", "lognormal: of a document, in tokens",
     Whole<D>{&D::mean_length, 0, kLengthMost}},
    {"sigma", "lognormal: of the logarithm of the length", Real<D>{&D::sigma, 0.0, 10.0}},
    {"independent_replicas", "replicas draw documents of their own",
     Flag<D>{&D::independent_replicas}},
};

}  // namespace

std::span<const Field<ParameterServers>> server_fields() { return kServers; }
std::span<const Field<OffloadSettings>> offload_fields() { return kOffload; }
std::span<const Field<Documents>> document_fields() { return kDocuments; }

}  // namespace trainyard
