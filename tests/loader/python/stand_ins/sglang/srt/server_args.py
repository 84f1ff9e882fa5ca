import dataclasses


@dataclasses.dataclass
class ServerArgs:
    """Some of SGLang's arguments, as its dataclass names them."""
    model_path: str
    ep_size: int
    tp_size: int
    init_expert_location: str
    ep_num_redundant_experts: int
    nnodes: int = 1
    quantization: str = "w8a8"
    moe_a2a_backend: str = "deepep"
    ep_dispatch_algorithm: str = "static"
    enable_eplb: bool = False
    disaggregation_mode: str = "prefill"
    disable_shared_experts_fusion: bool = False
    mem_fraction_static: float = 0.8
