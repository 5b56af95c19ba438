"""The model's configuration as the engine sees it: checked, every default filled."""

from dataclasses import dataclass

LINEAR = "linear_attention"
INDEXED = "indexed_attention"


@dataclass(frozen=True)
class ModelConfig:
    """One text decoder of the `qwen4_exp` family; names as in its `config.json`.

    Layer indices count from zero here (`ple_layer_ids` of the file counts from one).
    """

    model_type: str  # the family: "qwen4_exp", whichever spelling the file has
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    layer_types: tuple[str, ...]  # LINEAR or INDEXED, whichever spelling the file has
    rms_norm_eps: float
    hidden_act: str
    attention_bias: bool
    tie_word_embeddings: bool
    max_position_embeddings: int
    # residual streams
    hc_count: int
    hc_lowrank: int
    # sparse attention
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rope_theta: float
    rotary_dim: int  # rotated features of a head, even
    indexer_n_heads: int
    indexer_head_dim: int
    indexer_compress_ratio: int  # tokens per block
    indexer_budget: int  # tokens chosen from blocks, a multiple of the above
    # gated delta net
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int
    output_gate: str  # "sigmoid" or "silu"
    # experts
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    norm_topk_prob: bool
    # n-gram embeddings
    ple_layers: tuple[int, ...]  # from zero, ascending
    ple_embed_dim: int
    ngram_size: int
    heads_per_ngram: int
    ple_conv_kernel_size: int
    ngram_vocab_size_base: int
    make_ngram_vocab_size_divisible_by: int
    seed: int
    split_ngram_parts: int
    # tokens
    eos_token_id: (
        int | None
    )  # the barrier of the n-gram hash, not the chat's stop token
    stop_ids: tuple[int, ...]  # ascending; the union of all the folder's files
    notes: tuple[str, ...]  # defaults that had to be assumed, "key absent: value"
    has_head: bool = False  # all tensors of the draft head are there

    @property
    def ngram_heads(self) -> int:
        """Hash heads of one PLE module, all orders together."""
        return (self.ngram_size - 1) * self.heads_per_ngram

    @property
    def ngram_head_dim(self) -> int:
        """Features of one row of a PLE table."""
        return self.ple_embed_dim // self.ngram_heads

    @property
    def key_dim(self) -> int:
        """Features of all GDN key heads."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Features of all GDN value heads."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """Channels of the GDN convolution: queries, keys, values."""
        return 2 * self.key_dim + self.value_dim

    @property
    def wide_dim(self) -> int:
        """Features of all residual streams."""
        return self.hc_count * self.hidden_size

    @property
    def indexer_blocks(self) -> int:
        """Blocks that a row may choose."""
        return self.indexer_budget // self.indexer_compress_ratio
