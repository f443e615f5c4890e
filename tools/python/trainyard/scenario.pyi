# Written by tools/python/write_stubs from the table of a scenario's fields.
import os
from typing import Any, Iterable, Literal, Mapping, Sequence, TypeVar

SCHEMA: dict[str, Any]
_Self = TypeVar("_Self", bound="Section")

def plain(value: Any) -> Any: ...
def object_classes(schema: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]: ...

class Section:
    @classmethod
    def from_dict(cls: type[_Self], fields: Mapping[str, Any]) -> _Self: ...
    def to_dict(self) -> dict[str, Any]: ...
    def copy(self: _Self) -> _Self: ...
    def __dir__(self) -> Iterable[str]: ...

class Model(Section):
    name: str | None
    source: str | None
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    vocab: int | None
    max_positions: int | None
    gated_ffn: bool | None
    biases: bool | None
    qkv_biases: bool | None
    qk_norm: bool | None
    post_norms: bool | None
    tied_embeddings: bool | None
    dropout: bool | None
    positions: Literal["learned", "rotary", "none"] | None
    norm: Literal["layer_norm", "rms_norm"] | None
    window: int | None
    full_attention_every: int | None
    query_latent: int | None
    kv_latent: int | None
    rope_dim: int | None
    value_dim: int | None
    experts: int | None
    experts_per_token: int | None
    expert_ffn: int | None
    shared_ffn: int | None
    dense_layers: int | None
    moe_every: int | None
    expert_groups: int | None
    groups_per_token: int | None
    router_bias: bool | None
    clamped_experts: bool | None
    description: str | None
    def __init__(
        self,
        *,
        name: str | None = ...,
        source: str | None = ...,
        layers: int | None = ...,
        hidden: int | None = ...,
        heads: int | None = ...,
        kv_heads: int | None = ...,
        head_dim: int | None = ...,
        ffn: int | None = ...,
        vocab: int | None = ...,
        max_positions: int | None = ...,
        gated_ffn: bool | None = ...,
        biases: bool | None = ...,
        qkv_biases: bool | None = ...,
        qk_norm: bool | None = ...,
        post_norms: bool | None = ...,
        tied_embeddings: bool | None = ...,
        dropout: bool | None = ...,
        positions: Literal["learned", "rotary", "none"] | None = ...,
        norm: Literal["layer_norm", "rms_norm"] | None = ...,
        window: int | None = ...,
        full_attention_every: int | None = ...,
        query_latent: int | None = ...,
        kv_latent: int | None = ...,
        rope_dim: int | None = ...,
        value_dim: int | None = ...,
        experts: int | None = ...,
        experts_per_token: int | None = ...,
        expert_ffn: int | None = ...,
        shared_ffn: int | None = ...,
        dense_layers: int | None = ...,
        moe_every: int | None = ...,
        expert_groups: int | None = ...,
        groups_per_token: int | None = ...,
        router_bias: bool | None = ...,
        clamped_experts: bool | None = ...,
        description: str | None = ...,
    ) -> None: ...

class Fabric(Section):
    radix: Any | None
    oversubscription: Any | None
    core_oversubscription: Any | None
    nodes_per_unit: Any | None
    hop_latency: Any | None
    routing: Any | None
    dims: Any | None
    dimensions: Any | None
    cables: Any | None
    nics_per_router: Any | None
    routers_per_group: Any | None
    global_links: Any | None
    reduces: bool | None
    kind: Literal["single_switch", "rail_optimized", "fat_tree", "fat_tree3", "multi_plane", "dual_tor", "torus", "dragonfly"] | None
    def __init__(
        self,
        *,
        radix: Any | None = ...,
        oversubscription: Any | None = ...,
        core_oversubscription: Any | None = ...,
        nodes_per_unit: Any | None = ...,
        hop_latency: Any | None = ...,
        routing: Any | None = ...,
        dims: Any | None = ...,
        dimensions: Any | None = ...,
        cables: Any | None = ...,
        nics_per_router: Any | None = ...,
        routers_per_group: Any | None = ...,
        global_links: Any | None = ...,
        reduces: bool | None = ...,
        kind: Literal["single_switch", "rail_optimized", "fat_tree", "fat_tree3", "multi_plane", "dual_tor", "torus", "dragonfly"] | None = ...,
    ) -> None: ...

class Cluster(Section):
    node: str | Mapping[str, Any] | None
    nodes: int | None
    nic: Mapping[str, Any] | None
    fabric: Fabric
    sites: Mapping[str, Any] | None
    others: Sequence[Any] | None
    faults: Sequence[Any] | None
    def __init__(
        self,
        *,
        node: str | Mapping[str, Any] | None = ...,
        nodes: int | None = ...,
        nic: Mapping[str, Any] | None = ...,
        fabric: Fabric | Mapping[str, Any] | None = ...,
        sites: Mapping[str, Any] | None = ...,
        others: Sequence[Any] | None = ...,
        faults: Sequence[Any] | None = ...,
        **custom: Any,
    ) -> None: ...

class Parallelism(Section):
    tensor: int | None
    sequence_parallel: bool | None
    pipeline: int | None
    interleave: int | None
    data: int | None
    context: int | None
    context_exchange: Literal["p2p", "all_gather", "a2a", "a2a+p2p"] | None
    context_split: Literal["zigzag", "contiguous"] | None
    context_all_to_all: int | None
    expert: int | None
    expert_tensor: int | None
    schedule: Literal["naive", "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "zb_auto", "v_half", "v_min", "dualpipe", "dualpipe_v"] | str | None
    microbatch_group_size: int | None
    zero_stage: int | None
    shard: int | None
    reshard_after_forward: Literal["auto", "always", "never"] | None
    reshard_group: int | None
    forward_prefetch: int | None
    backward_prefetch: bool | None
    reduce_every_microbatch: bool | None
    gradient_buckets_in_flight: int | None
    gradient_buckets: Literal["megatron", "pytorch"] | None
    overlap_grad_reduce: bool | None
    overlap_param_gather: bool | None
    weight_exchange: Literal["all_gather", "broadcast"] | None
    bucket_parameters: int | None
    first_stage_layers: int | None
    last_stage_layers: int | None
    tensor_per_stage: Sequence[int] | None
    layers_per_stage: Sequence[int] | None
    replica_microbatches: Sequence[int] | None
    balance: Literal["equal", "auto"] | None
    operator_devices: Mapping[str, int] | None
    embedding_in_split: bool | None
    loss_in_split: bool | None
    scatter_gather: bool | None
    overlap_p2p: bool | None
    overlap_tensor: bool | None
    chunked_tensor: bool | None
    rank_order: str | None
    placement: Sequence[Any] | str | None
    node_order: Sequence[str] | None
    def __init__(
        self,
        *,
        tensor: int | None = ...,
        sequence_parallel: bool | None = ...,
        pipeline: int | None = ...,
        interleave: int | None = ...,
        data: int | None = ...,
        context: int | None = ...,
        context_exchange: Literal["p2p", "all_gather", "a2a", "a2a+p2p"] | None = ...,
        context_split: Literal["zigzag", "contiguous"] | None = ...,
        context_all_to_all: int | None = ...,
        expert: int | None = ...,
        expert_tensor: int | None = ...,
        schedule: Literal["naive", "gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "zb_auto", "v_half", "v_min", "dualpipe", "dualpipe_v"] | str | None = ...,
        microbatch_group_size: int | None = ...,
        zero_stage: int | None = ...,
        shard: int | None = ...,
        reshard_after_forward: Literal["auto", "always", "never"] | None = ...,
        reshard_group: int | None = ...,
        forward_prefetch: int | None = ...,
        backward_prefetch: bool | None = ...,
        reduce_every_microbatch: bool | None = ...,
        gradient_buckets_in_flight: int | None = ...,
        gradient_buckets: Literal["megatron", "pytorch"] | None = ...,
        overlap_grad_reduce: bool | None = ...,
        overlap_param_gather: bool | None = ...,
        weight_exchange: Literal["all_gather", "broadcast"] | None = ...,
        bucket_parameters: int | None = ...,
        first_stage_layers: int | None = ...,
        last_stage_layers: int | None = ...,
        tensor_per_stage: Sequence[int] | None = ...,
        layers_per_stage: Sequence[int] | None = ...,
        replica_microbatches: Sequence[int] | None = ...,
        balance: Literal["equal", "auto"] | None = ...,
        operator_devices: Mapping[str, int] | None = ...,
        embedding_in_split: bool | None = ...,
        loss_in_split: bool | None = ...,
        scatter_gather: bool | None = ...,
        overlap_p2p: bool | None = ...,
        overlap_tensor: bool | None = ...,
        chunked_tensor: bool | None = ...,
        rank_order: str | None = ...,
        placement: Sequence[Any] | str | None = ...,
        node_order: Sequence[str] | None = ...,
    ) -> None: ...

class Training(Section):
    sequence_length: int | None
    micro_batch_size: int | None
    global_batch_size: int | None
    precision: Literal["bf16", "fp16", "fp32", "tf32"] | None
    gradient_precision: Literal["bf16", "fp16", "fp32"] | None
    recompute: Literal["none", "selective", "full"] | None
    recompute_modules: Sequence[Literal["core_attn", "layernorm", "mlp", "moe", "moe_act", "shared_experts", "mla_up_proj", "every_second_gemm"]] | None
    recompute_method: Literal["uniform", "block", "every", "fraction", "layers"] | None
    recompute_num_layers: int | None
    recompute_fraction: float | None
    recompute_layers: Sequence[int] | None
    recipe: Literal["fp16_gradient_copy", "fp8", "fp8_attention", "fp8_blockwise", "fp8_cached", "nvfp4", "pure_16bit", "standard"] | None
    fp8_scaling: Literal["delayed", "current"] | None
    lora_rank: int | None
    lora_targets: Sequence[Literal["query", "key", "value", "projection", "gate", "up", "down"]] | None
    frozen_weights: Literal["as_trained", "nf4"] | None
    optimizer: Literal["adam", "adam_16bit_moments", "adam_8bit", "muon", "sgd", "sgd_momentum"] | None
    frozen_layers: Sequence[int] | None
    frozen_embedding: bool | None
    frozen_head: bool | None
    attention: Literal["flash", "memory_efficient", "unfused"] | None
    vocab_multiple: int | None
    mtp_layers: int | None
    fused_loss: bool | None
    compiled: bool | None
    gradient_clipping: bool | None
    gradient_average: Literal["framework", "collective", "before", "before_always"] | None
    gradient_check: Literal["framework", "on", "off"] | None
    def __init__(
        self,
        *,
        sequence_length: int | None = ...,
        micro_batch_size: int | None = ...,
        global_batch_size: int | None = ...,
        precision: Literal["bf16", "fp16", "fp32", "tf32"] | None = ...,
        gradient_precision: Literal["bf16", "fp16", "fp32"] | None = ...,
        recompute: Literal["none", "selective", "full"] | None = ...,
        recompute_modules: Sequence[Literal["core_attn", "layernorm", "mlp", "moe", "moe_act", "shared_experts", "mla_up_proj", "every_second_gemm"]] | None = ...,
        recompute_method: Literal["uniform", "block", "every", "fraction", "layers"] | None = ...,
        recompute_num_layers: int | None = ...,
        recompute_fraction: float | None = ...,
        recompute_layers: Sequence[int] | None = ...,
        recipe: Literal["fp16_gradient_copy", "fp8", "fp8_attention", "fp8_blockwise", "fp8_cached", "nvfp4", "pure_16bit", "standard"] | None = ...,
        fp8_scaling: Literal["delayed", "current"] | None = ...,
        lora_rank: int | None = ...,
        lora_targets: Sequence[Literal["query", "key", "value", "projection", "gate", "up", "down"]] | None = ...,
        frozen_weights: Literal["as_trained", "nf4"] | None = ...,
        optimizer: Literal["adam", "adam_16bit_moments", "adam_8bit", "muon", "sgd", "sgd_momentum"] | None = ...,
        frozen_layers: Sequence[int] | None = ...,
        frozen_embedding: bool | None = ...,
        frozen_head: bool | None = ...,
        attention: Literal["flash", "memory_efficient", "unfused"] | None = ...,
        vocab_multiple: int | None = ...,
        mtp_layers: int | None = ...,
        fused_loss: bool | None = ...,
        compiled: bool | None = ...,
        gradient_clipping: bool | None = ...,
        gradient_average: Literal["framework", "collective", "before", "before_always"] | None = ...,
        gradient_check: Literal["framework", "on", "off"] | None = ...,
    ) -> None: ...

class Experts(Section):
    routing: Literal["balanced", "zipf", "dirichlet", "recorded"] | None
    zipf_exponent: float | None
    dirichlet_alpha: float | None
    counts: str | None
    independent_replicas: bool | None
    capacity_factor: float | None
    pad_to_capacity: bool | None
    dispatcher: Literal["all_to_all", "all_gather", "node_limited", "hybrid_ep"] | None
    dispatch_precision: Literal["bf16", "fp16", "fp8"] | None
    gemms: Literal["per_expert", "grouped", "fused"] | None
    overlap_shared: bool | None
    overlap_dispatch: bool | None
    def __init__(
        self,
        *,
        routing: Literal["balanced", "zipf", "dirichlet", "recorded"] | None = ...,
        zipf_exponent: float | None = ...,
        dirichlet_alpha: float | None = ...,
        counts: str | None = ...,
        independent_replicas: bool | None = ...,
        capacity_factor: float | None = ...,
        pad_to_capacity: bool | None = ...,
        dispatcher: Literal["all_to_all", "all_gather", "node_limited", "hybrid_ep"] | None = ...,
        dispatch_precision: Literal["bf16", "fp16", "fp8"] | None = ...,
        gemms: Literal["per_expert", "grouped", "fused"] | None = ...,
        overlap_shared: bool | None = ...,
        overlap_dispatch: bool | None = ...,
    ) -> None: ...

class ParameterServers(Section):
    servers: int | None
    dedicated: bool | None
    staleness: int | None
    asynchronous: bool | None
    steps: int | None
    def __init__(
        self,
        *,
        servers: int | None = ...,
        dedicated: bool | None = ...,
        staleness: int | None = ...,
        asynchronous: bool | None = ...,
        steps: int | None = ...,
    ) -> None: ...

class LocalSteps(Section):
    every: int | None
    workers: int | None
    precision: Literal["fp32", "bf16", "fp16"] | None
    def __init__(
        self,
        *,
        every: int | None = ...,
        workers: int | None = ...,
        precision: Literal["fp32", "bf16", "fp16"] | None = ...,
    ) -> None: ...

class Offload(Section):
    activations: float | None
    activation_layers: int | None
    optimizer: Literal["none", "cpu", "fetch"] | None
    weights: bool | None
    def __init__(
        self,
        *,
        activations: float | None = ...,
        activation_layers: int | None = ...,
        optimizer: Literal["none", "cpu", "fetch"] | None = ...,
        weights: bool | None = ...,
    ) -> None: ...

class Documents(Section):
    kind: Literal["none", "list", "lognormal", "preset"] | None
    lengths: Sequence[int] | None
    mean_length: int | None
    sigma: float | None
    preset: str | None
    balance: Literal["none", "sequences", "documents"] | None
    independent_replicas: bool | None
    def __init__(
        self,
        *,
        kind: Literal["none", "list", "lognormal", "preset"] | None = ...,
        lengths: Sequence[int] | None = ...,
        mean_length: int | None = ...,
        sigma: float | None = ...,
        preset: str | None = ...,
        balance: Literal["none", "sequences", "documents"] | None = ...,
        independent_replicas: bool | None = ...,
    ) -> None: ...

class Algorithms(Section):
    all_reduce: Literal["nccl", "ring", "bidirectional_ring", "hierarchical", "multi_level", "recursive_doubling", "halving_doubling", "one_shot", "two_shot", "tree", "parameter_server", "nvls", "nvls_tree", "sharp", "nvls_sharp"] | str | None
    all_gather: Literal["nccl", "ring", "direct", "hierarchical", "multi_level", "pat", "nvls", "sharp"] | str | None
    reduce_scatter: Literal["nccl", "ring", "direct", "hierarchical", "multi_level", "pat", "nvls", "sharp"] | str | None
    broadcast: Literal["nccl", "chain", "tree"] | str | None
    reduce: Literal["nccl", "chain", "tree"] | str | None
    all_to_all: Literal["nccl", "pairwise", "direct", "hierarchical", "node_limited", "hybrid_ep"] | str | None
    send_recv: Literal["nccl", "direct"] | str | None
    def __init__(
        self,
        *,
        all_reduce: Literal["nccl", "ring", "bidirectional_ring", "hierarchical", "multi_level", "recursive_doubling", "halving_doubling", "one_shot", "two_shot", "tree", "parameter_server", "nvls", "nvls_tree", "sharp", "nvls_sharp"] | str | None = ...,
        all_gather: Literal["nccl", "ring", "direct", "hierarchical", "multi_level", "pat", "nvls", "sharp"] | str | None = ...,
        reduce_scatter: Literal["nccl", "ring", "direct", "hierarchical", "multi_level", "pat", "nvls", "sharp"] | str | None = ...,
        broadcast: Literal["nccl", "chain", "tree"] | str | None = ...,
        reduce: Literal["nccl", "chain", "tree"] | str | None = ...,
        all_to_all: Literal["nccl", "pairwise", "direct", "hierarchical", "node_limited", "hybrid_ep"] | str | None = ...,
        send_recv: Literal["nccl", "direct"] | str | None = ...,
    ) -> None: ...

class Nccl(Section):
    version: str | None
    algo: str | None
    proto: str | None
    min_channels: int | None
    max_channels: int | None
    def __init__(
        self,
        *,
        version: str | None = ...,
        algo: str | None = ...,
        proto: str | None = ...,
        min_channels: int | None = ...,
        max_channels: int | None = ...,
    ) -> None: ...

class Collectives(Section):
    tensor: Algorithms
    pipeline: Algorithms
    data: Algorithms
    expert: Algorithms
    context: Algorithms
    other: Algorithms
    nccl: Nccl
    profile: str | None
    def __init__(
        self,
        *,
        tensor: Algorithms | Mapping[str, Any] | None = ...,
        pipeline: Algorithms | Mapping[str, Any] | None = ...,
        data: Algorithms | Mapping[str, Any] | None = ...,
        expert: Algorithms | Mapping[str, Any] | None = ...,
        context: Algorithms | Mapping[str, Any] | None = ...,
        other: Algorithms | Mapping[str, Any] | None = ...,
        nccl: Nccl | Mapping[str, Any] | None = ...,
        profile: str | None = ...,
    ) -> None: ...

class Published(Section):
    source: str | None
    step_time: str | None
    tokens_per_s_per_gpu: float | None
    model_flops_per_gpu: str | None
    hardware_flops_per_gpu: str | None
    mfu: float | None
    note: str | None
    def __init__(
        self,
        *,
        source: str | None = ...,
        step_time: str | None = ...,
        tokens_per_s_per_gpu: float | None = ...,
        model_flops_per_gpu: str | None = ...,
        hardware_flops_per_gpu: str | None = ...,
        mfu: float | None = ...,
        note: str | None = ...,
    ) -> None: ...

class Lemons(Section):
    share: float | None
    multiple: float | None
    evict_after: int | None
    cured: float | None
    source: str | None
    def __init__(
        self,
        *,
        share: float | None = ...,
        multiple: float | None = ...,
        evict_after: int | None = ...,
        cured: float | None = ...,
        source: str | None = ...,
    ) -> None: ...

class Checkpoint(Section):
    bytes: str | None
    write_rate: str | None
    read_rate: str | None
    node_rate: str | None
    one_replica_writes: bool | None
    metadata: str | None
    stall: str | None
    write: str | None
    drag: str | None
    load: str | None
    interval: Any | None
    interval_steps: int | None
    kept: int | None
    near: Sequence[Mapping[str, Any]] | None
    source: str | None
    def __init__(
        self,
        *,
        bytes: str | None = ...,
        write_rate: str | None = ...,
        read_rate: str | None = ...,
        node_rate: str | None = ...,
        one_replica_writes: bool | None = ...,
        metadata: str | None = ...,
        stall: str | None = ...,
        write: str | None = ...,
        drag: str | None = ...,
        load: str | None = ...,
        interval: Any | None = ...,
        interval_steps: int | None = ...,
        kept: int | None = ...,
        near: Sequence[Mapping[str, Any]] | None = ...,
        source: str | None = ...,
    ) -> None: ...

class Recovery(Section):
    detect: str | None
    diagnose: str | None
    queue: str | None
    start: str | None
    communicator_init: str | None
    warm_up: str | None
    reconfigure: str | None
    misdiagnosis: float | None
    gpus: int | None
    start_per_doubling: str | None
    communicator_init_per_doubling: str | None
    source: str | None
    def __init__(
        self,
        *,
        detect: str | None = ...,
        diagnose: str | None = ...,
        queue: str | None = ...,
        start: str | None = ...,
        communicator_init: str | None = ...,
        warm_up: str | None = ...,
        reconfigure: str | None = ...,
        misdiagnosis: float | None = ...,
        gpus: int | None = ...,
        start_per_doubling: str | None = ...,
        communicator_init_per_doubling: str | None = ...,
        source: str | None = ...,
    ) -> None: ...

class Spares(Section):
    nodes: int | None
    replace: str | None
    cold_replace: str | None
    cold_nodes: int | None
    repair: str | None
    repair_distribution: Literal["fixed", "exponential", "lognormal"] | None
    repair_sigma: float | None
    manual_share: float | None
    manual_repair: str | None
    source: str | None
    def __init__(
        self,
        *,
        nodes: int | None = ...,
        replace: str | None = ...,
        cold_replace: str | None = ...,
        cold_nodes: int | None = ...,
        repair: str | None = ...,
        repair_distribution: Literal["fixed", "exponential", "lognormal"] | None = ...,
        repair_sigma: float | None = ...,
        manual_share: float | None = ...,
        manual_repair: str | None = ...,
        source: str | None = ...,
    ) -> None: ...

class HealthCheck(Section):
    every: str | None
    duration: str | None
    coverage: float | None
    source: str | None
    def __init__(
        self,
        *,
        every: str | None = ...,
        duration: str | None = ...,
        coverage: float | None = ...,
        source: str | None = ...,
    ) -> None: ...

class Reliability(Section):
    title: str | None
    source: str | None
    failures: Sequence[Mapping[str, Any]] | None
    rate_factor: float | None
    lemons: Lemons
    checkpoint: Checkpoint
    recovery: Recovery
    spares: Spares
    pauses: Sequence[Mapping[str, Any]] | None
    phases: Sequence[Mapping[str, Any]] | None
    health_check: HealthCheck
    policy: Literal["restart", "elastic", "mirrored", "redundant", "reroute", "backup"] | None
    backup_replicas: int | None
    nodes_per_rack: int | None
    preset: str | None
    def __init__(
        self,
        *,
        title: str | None = ...,
        source: str | None = ...,
        failures: Sequence[Mapping[str, Any]] | None = ...,
        rate_factor: float | None = ...,
        lemons: Lemons | Mapping[str, Any] | None = ...,
        checkpoint: Checkpoint | Mapping[str, Any] | None = ...,
        recovery: Recovery | Mapping[str, Any] | None = ...,
        spares: Spares | Mapping[str, Any] | None = ...,
        pauses: Sequence[Mapping[str, Any]] | None = ...,
        phases: Sequence[Mapping[str, Any]] | None = ...,
        health_check: HealthCheck | Mapping[str, Any] | None = ...,
        policy: Literal["restart", "elastic", "mirrored", "redundant", "reroute", "backup"] | None = ...,
        backup_replicas: int | None = ...,
        nodes_per_rack: int | None = ...,
        preset: str | None = ...,
    ) -> None: ...

class Power(Section):
    gpu_cap_w: float | None
    node_cap_w: float | None
    stage_clocks: Sequence[int] | None
    clock_tolerance: float | None
    pue: float | None
    nodes_per_rack: int | None
    price_per_kwh: float | None
    kg_co2_per_kwh: float | None
    price_per_gpu_hour: float | None
    price_preset: Literal["none", "aws_p3_on_demand", "aws_p3_reserved_3_years", "aws_p4d_on_demand", "aws_p4d_reserved_1_year", "aws_p4d_reserved_3_years", "aws_p4de_on_demand", "aws_p5_on_demand", "gcp_v100_spot", "gcp_a100_40gb_spot", "lambda_h100_on_demand", "lambda_a100_80gb_on_demand", "deepseek_v3_rental"] | Sequence[Literal["aws_p3_on_demand", "aws_p3_reserved_3_years", "aws_p4d_on_demand", "aws_p4d_reserved_1_year", "aws_p4d_reserved_3_years", "aws_p4de_on_demand", "aws_p5_on_demand", "gcp_v100_spot", "gcp_a100_40gb_spot", "lambda_h100_on_demand", "lambda_a100_80gb_on_demand", "deepseek_v3_rental"]] | None
    capital_per_gpu: float | None
    capital_years: float | None
    def __init__(
        self,
        *,
        gpu_cap_w: float | None = ...,
        node_cap_w: float | None = ...,
        stage_clocks: Sequence[int] | None = ...,
        clock_tolerance: float | None = ...,
        pue: float | None = ...,
        nodes_per_rack: int | None = ...,
        price_per_kwh: float | None = ...,
        kg_co2_per_kwh: float | None = ...,
        price_per_gpu_hour: float | None = ...,
        price_preset: Literal["none", "aws_p3_on_demand", "aws_p3_reserved_3_years", "aws_p4d_on_demand", "aws_p4d_reserved_1_year", "aws_p4d_reserved_3_years", "aws_p4de_on_demand", "aws_p5_on_demand", "gcp_v100_spot", "gcp_a100_40gb_spot", "lambda_h100_on_demand", "lambda_a100_80gb_on_demand", "deepseek_v3_rental"] | Sequence[Literal["aws_p3_on_demand", "aws_p3_reserved_3_years", "aws_p4d_on_demand", "aws_p4d_reserved_1_year", "aws_p4d_reserved_3_years", "aws_p4de_on_demand", "aws_p5_on_demand", "gcp_v100_spot", "gcp_a100_40gb_spot", "lambda_h100_on_demand", "lambda_a100_80gb_on_demand", "deepseek_v3_rental"]] | None = ...,
        capital_per_gpu: float | None = ...,
        capital_years: float | None = ...,
    ) -> None: ...

class Scenario(Section):
    description: str | None
    source: str | None
    assumptions: Sequence[str] | None
    model: str | Model | None
    cluster: Cluster
    parallelism: Parallelism
    training: Training
    experts: Experts
    parameter_servers: ParameterServers
    local_steps: LocalSteps
    offload: Offload
    documents: Documents
    collectives: Collectives
    framework: Literal["composer", "deepspeed", "hai_llm", "internevo", "maxtext", "megatron", "megatron_2021", "megatron_2022", "megatron_2023", "megatron_bridge", "megatron_deepspeed", "nemo", "pytorch", "torchtitan"] | None
    defaults: Literal["framework", "ideal"] | None
    host: str | None
    engine: Literal["simgrid", "ideal"] | None
    collective_model: Literal["fluid", "stepwise"] | None
    interference: bool | None
    stragglers: bool | None
    flops_convention: Literal["causal", "full"] | None
    seed: int | None
    applied_defaults: Sequence[Mapping[str, Any]] | None
    published: Published
    reliability: Reliability
    power: Power
    def __init__(
        self,
        *,
        description: str | None = ...,
        source: str | None = ...,
        assumptions: Sequence[str] | None = ...,
        model: str | Model | Mapping[str, Any] | None = ...,
        cluster: Cluster | Mapping[str, Any] | None = ...,
        parallelism: Parallelism | Mapping[str, Any] | None = ...,
        training: Training | Mapping[str, Any] | None = ...,
        experts: Experts | Mapping[str, Any] | None = ...,
        parameter_servers: ParameterServers | Mapping[str, Any] | None = ...,
        local_steps: LocalSteps | Mapping[str, Any] | None = ...,
        offload: Offload | Mapping[str, Any] | None = ...,
        documents: Documents | Mapping[str, Any] | None = ...,
        collectives: Collectives | Mapping[str, Any] | None = ...,
        framework: Literal["composer", "deepspeed", "hai_llm", "internevo", "maxtext", "megatron", "megatron_2021", "megatron_2022", "megatron_2023", "megatron_bridge", "megatron_deepspeed", "nemo", "pytorch", "torchtitan"] | None = ...,
        defaults: Literal["framework", "ideal"] | None = ...,
        host: str | None = ...,
        engine: Literal["simgrid", "ideal"] | None = ...,
        collective_model: Literal["fluid", "stepwise"] | None = ...,
        interference: bool | None = ...,
        stragglers: bool | None = ...,
        flops_convention: Literal["causal", "full"] | None = ...,
        seed: int | None = ...,
        applied_defaults: Sequence[Mapping[str, Any]] | None = ...,
        published: Published | Mapping[str, Any] | None = ...,
        reliability: Reliability | Mapping[str, Any] | None = ...,
        power: Power | Mapping[str, Any] | None = ...,
    ) -> None: ...
    @property
    def file(self) -> str | None: ...
    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Scenario: ...
    def to_json(self) -> str: ...
    def resolved(self) -> Scenario: ...

__all__ = ["Section", "Scenario", "Algorithms", "Checkpoint", "Cluster", "Collectives", "Documents", "Experts", "Fabric", "HealthCheck", "Lemons", "LocalSteps", "Model", "Nccl", "Offload", "Parallelism", "ParameterServers", "Power", "Published", "Recovery", "Reliability", "Spares", "Training"]
