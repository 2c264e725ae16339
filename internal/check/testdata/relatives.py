"""More small models for record_model.py: families and shapes beside those of its own table.

A case is a function that returns a class of transformers and its configuration. Names say what is special."""
import transformers as T

VOCAB = 64
# Heads of 8 whatever the hidden size is, where a family may say so, and an equal share of it where it may not.
OWN = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
           num_key_value_heads=2, head_dim=8, max_position_embeddings=64, initializer_range=0.2, use_cache=False,
           attention_dropout=0.0, pad_token_id=None, bos_token_id=None, eos_token_id=None)
SHARE = {**{k: v for k, v in OWN.items() if k != "head_dim"}, "hidden_size": 32, "intermediate_size": 32}
ENCODER = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
               max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
               initializer_range=0.2)
LATENT = dict(num_key_value_heads=4, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
              n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, first_k_dense_replace=1)
FREE = {k: v for k, v in OWN.items() if k not in ("head_dim", "num_key_value_heads")}


def case(name, base=OWN, head="ForCausalLM", config=None, **more):
    """The class NAME+head with its configuration; a value of ... leaves a key out."""
    keys = {k: v for k, v in {**base, **more}.items() if v is not ...}

    def make():
        kind = getattr(T, config or name + "Config")
        return getattr(T, name + head), kind(**keys)
    return make


def rope(kind, theta=1000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


MAMBA = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, state_size=5, conv_kernel=4, expand=2,
             initializer_range=0.2, use_cache=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
MAMBA2 = dict(MAMBA, num_heads=4, head_dim=8, n_groups=1, chunk_size=8)
FALCON = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=32,
              max_position_embeddings=64, hidden_dropout=0.0, attention_dropout=0.0, initializer_range=0.2,
              use_cache=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
DISTIL = dict(vocab_size=VOCAB, dim=16, hidden_dim=24, n_layers=2, n_heads=2, max_position_embeddings=32, dropout=0.0,
              attention_dropout=0.0, seq_classif_dropout=0.0, qa_dropout=0.0, initializer_range=0.2)
ELECTRA = dict(ENCODER, embedding_size=12)
GPT2 = dict(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, initializer_range=0.2, use_cache=False, bos_token_id=None, eos_token_id=None)
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=12)
SLIDING, FULL = "sliding_attention", "full_attention"
EAGER = {"gpt_oss", "gpt_oss_yarn", "gemma2_odd"}

CASES = {
    # Families that had no recording.
    "mamba": case("Mamba", MAMBA, use_bias=True, use_conv_bias=True, time_step_rank=3),
    "mamba_tied": case("Mamba", MAMBA, use_bias=False, use_conv_bias=False, time_step_rank="auto",
                       tie_word_embeddings=True, hidden_size=24),
    "falcon": case("Falcon", FALCON, multi_query=True, parallel_attn=True, bias=False,
                   new_decoder_architecture=False, alibi=False),
    "falcon_new": case("Falcon", FALCON, num_kv_heads=2, new_decoder_architecture=True, bias=False, alibi=False,
                       rope_parameters=rope("default", 500.0)),
    "falcon_one_norm": case("Falcon", FALCON, num_kv_heads=2, new_decoder_architecture=True, bias=True, alibi=False,
                            num_ln_in_parallel_attn=1, tie_word_embeddings=False),
    "falcon_sequential": case("Falcon", FALCON, multi_query=False, parallel_attn=False, bias=True,
                              new_decoder_architecture=False, alibi=False),
    "falcon_alibi": case("Falcon", FALCON, multi_query=False, parallel_attn=False, bias=True,
                         new_decoder_architecture=False, alibi=True),
    "glm": case("Glm", attention_bias=True, partial_rotary_factor=0.5),
    "glm4": case("Glm4", attention_bias=True, partial_rotary_factor=0.5),
    "glm4_moe": case("Glm4Moe", attention_bias=True, use_qk_norm=True, partial_rotary_factor=0.5, n_routed_experts=8,
                     num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=1, n_group=2, topk_group=1,
                     first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True),
    "gpt_oss": case("GptOss", num_local_experts=4, num_experts_per_tok=2, sliding_window=5, attention_bias=True,
                    layer_types=[SLIDING, FULL], rope_parameters=rope("default")),
    "gpt_oss_yarn": case("GptOss", num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                         layer_types=[SLIDING, FULL], rope_parameters=rope(
                             "yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=16)),
    "cohere2": case("Cohere2", SHARE, sliding_window=5, layer_types=[SLIDING, SLIDING, FULL], num_hidden_layers=3,
                    logit_scale=0.5, attention_bias=True),
    "cohere2_pattern": case("Cohere2", SHARE, sliding_window=5, sliding_window_pattern=2),
    "cohere": case("Cohere", SHARE, logit_scale=0.5, attention_bias=True),
    "cohere_qk_norm": case("Cohere", SHARE, use_qk_norm=True, tie_word_embeddings=False),
    "stablelm": case("StableLm", SHARE, use_qkv_bias=True, partial_rotary_factor=0.5, hidden_dropout=0.0),
    "stablelm_parallel": case("StableLm", SHARE, use_parallel_residual=True, qk_layernorm=True,
                              partial_rotary_factor=0.25, hidden_dropout=0.0, tie_word_embeddings=True),
    "distilbert": case("DistilBert", DISTIL, "ForMaskedLM"),
    "distilbert_waves": case("DistilBert", DISTIL, "ForMaskedLM", sinusoidal_pos_embds=True, activation="relu",
                             tie_word_embeddings=False),
    "distilbert_classes": case("DistilBert", DISTIL, "ForSequenceClassification", num_labels=3),
    "distilbert_tokens": case("DistilBert", DISTIL, "ForTokenClassification", num_labels=3),
    "distilbert_answers": case("DistilBert", DISTIL, "ForQuestionAnswering"),
    "electra": case("Electra", ELECTRA, "ForMaskedLM"),
    "electra_same": case("Electra", dict(ENCODER, embedding_size=16), "ForMaskedLM", tie_word_embeddings=False),
    "electra_classes": case("Electra", ELECTRA, "ForSequenceClassification", num_labels=3),
    "electra_tokens": case("Electra", ELECTRA, "ForTokenClassification", num_labels=3),
    "electra_answers": case("Electra", ELECTRA, "ForQuestionAnswering"),
    # Heads.
    "bert_tokens": case("Bert", ENCODER, "ForTokenClassification", num_labels=5),
    "bert_answers": case("Bert", ENCODER, "ForQuestionAnswering"),
    "bert_untied": case("Bert", ENCODER, "ForMaskedLM", tie_word_embeddings=False, hidden_act="relu",
                        type_vocab_size=3),
    "roberta": case("Roberta", ENCODER, "ForMaskedLM", pad_token_id=1, bos_token_id=None, eos_token_id=None),
    "roberta_classes": case("Roberta", ENCODER, "ForSequenceClassification", num_labels=3, pad_token_id=1),
    "roberta_tokens": case("Roberta", ENCODER, "ForTokenClassification", num_labels=4, pad_token_id=0),
    "roberta_answers": case("Roberta", ENCODER, "ForQuestionAnswering", pad_token_id=1),
    "llama_classes": case("Llama", OWN, "ForSequenceClassification", num_labels=3, pad_token_id=0),
    "llama_tokens": case("Llama", OWN, "ForTokenClassification", num_labels=3),
    "llama_answers": case("Llama", OWN, "ForQuestionAnswering"),
    "qwen3_classes": case("Qwen3", OWN, "ForSequenceClassification", num_labels=1, pad_token_id=5),
    "gpt2_classes": case("GPT2", GPT2, "ForSequenceClassification", num_labels=3, pad_token_id=0),
    "gpt2_tokens": case("GPT2", GPT2, "ForTokenClassification", num_labels=3, classifier_dropout=0.0),
    # Families that had references from their definitions.
    "qwen2_moe": case("Qwen2Moe", SHARE, **EXPERTS, shared_expert_intermediate_size=20, mlp_only_layers=[1],
                      num_hidden_layers=3, qkv_bias=True),
    "qwen2_moe_normed": case("Qwen2Moe", SHARE, **EXPERTS, shared_expert_intermediate_size=20, norm_topk_prob=True,
                             decoder_sparse_step=2, qkv_bias=False),
    "gpt_neox": case("GPTNeoX", SHARE, num_key_value_heads=..., hidden_dropout=0.0, rotary_pct=0.25, hidden_act="gelu"),
    "gpt_neox_sequential": case("GPTNeoX", SHARE, num_key_value_heads=..., hidden_dropout=0.0, rotary_pct=0.5,
                                use_parallel_residual=False, attention_bias=False),
    "granite": case("Granite", SHARE, embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.7,
                    logits_scaling=2.0, attention_bias=True, mlp_bias=True),
    "phi": case("Phi", SHARE, partial_rotary_factor=0.5, resid_pdrop=0.0, embd_pdrop=0.0),
    "phi_qk_norm": case("Phi", SHARE, partial_rotary_factor=0.5, resid_pdrop=0.0, embd_pdrop=0.0, qk_layernorm=True),
    "olmo": case("Olmo", SHARE, clip_qkv=1.0),
    "olmo3": case("Olmo3", SHARE, sliding_window=5, layer_types=[SLIDING, FULL]),
    "olmoe": case("Olmoe", SHARE, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, clip_qkv=2.0),
    "smollm3": case("SmolLM3", SHARE, no_rope_layers=[1, 0, 1], num_hidden_layers=3, attention_bias=True),
    "gptj": case("GPTJ", GPT2, rotary_dim=4, tie_word_embeddings=False),
    "starcoder2": case("Starcoder2", SHARE, sliding_window=5, residual_dropout=0.0, embedding_dropout=0.0,
                       use_bias=True, tie_word_embeddings=False),
    "seed_oss": case("SeedOss", attention_bias=True, attention_out_bias=False, residual_dropout=0.0),
    "arcee": case("Arcee", attention_bias=True, mlp_bias=True),
    # Other shapes of families that have recordings.
    "mistral_window": case("Mistral", sliding_window=5, tie_word_embeddings=True),
    "ministral": case("Ministral", sliding_window=5, layer_types=[SLIDING, FULL]),
    "mixtral_window": case("Mixtral", sliding_window=5, num_local_experts=5, num_experts_per_tok=3),
    "qwen2_window": case("Qwen2", SHARE, use_sliding_window=True, sliding_window=5, max_window_layers=1,
                         tie_word_embeddings=True),
    "qwen3_tied": case("Qwen3", num_attention_heads=6, num_key_value_heads=3, head_dim=6, hidden_size=20,
                       tie_word_embeddings=True, attention_bias=True),
    "qwen3_moe_tied": case("Qwen3Moe", **EXPERTS, norm_topk_prob=True, mlp_only_layers=[0], tie_word_embeddings=True,
                           attention_bias=True),
    "deepseek_v2_softmax": case("DeepseekV2", {**FREE, **LATENT}, q_lora_rank=9, n_shared_experts=1, n_group=1,
                                topk_group=1, topk_method="greedy", norm_topk_prob=False, routed_scaling_factor=2.0),
    "deepseek_v2_normed": case("DeepseekV2", {**FREE, **LATENT}, q_lora_rank=None, n_shared_experts=2, n_group=4,
                               topk_group=2, topk_method="group_limited_greedy", norm_topk_prob=True),
    "deepseek_v3_plain": case("DeepseekV3", {**FREE, **LATENT}, q_lora_rank=None, n_shared_experts=1, n_group=4,
                              topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5, tie_word_embeddings=True),
    "deepseek_v3_yarn": case("DeepseekV3", {**FREE, **LATENT}, q_lora_rank=8, n_shared_experts=1, n_group=1,
                             topk_group=1, first_k_dense_replace=0, rope_parameters=rope(
                                 "yarn", factor=4.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1,
                                 original_max_position_embeddings=8)),
    "ernie4_5_tied": case("Ernie4_5", tie_word_embeddings=True, num_attention_heads=6, num_key_value_heads=2),
    "ernie4_5_moe_odd": case("Ernie4_5_Moe", SHARE, moe_num_experts=5, moe_k=2, moe_intermediate_size=12,
                             moe_num_shared_experts=1, moe_layer_start_index=1, moe_layer_end_index=2,
                             num_hidden_layers=3, tie_word_embeddings=False),
    "gemma_tied": case("Gemma", num_key_value_heads=1, hidden_act="gelu_pytorch_tanh"),
    "gemma2_odd": case("Gemma2", hidden_size=18, num_attention_heads=6, num_key_value_heads=3, head_dim=6, query_pre_attn_scalar=7,
                       sliding_window=5, layer_types=[FULL, SLIDING], tie_word_embeddings=False),
    "gemma3_ropes": case("Gemma3", config="Gemma3TextConfig", sliding_window=5, num_hidden_layers=3,
                         layer_types=[SLIDING, SLIDING, FULL], query_pre_attn_scalar=7, rope_parameters={
                             SLIDING: rope("default", 100.0), FULL: rope("linear", 1000.0, factor=2.0)}),
    "gemma3_caps": case("Gemma3", config="Gemma3TextConfig", sliding_window=5, sliding_window_pattern=2,
                        attn_logit_softcapping=None, final_logit_softcapping=3.0, tie_word_embeddings=False),
    "llama_odd": case("Llama", hidden_size=21, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
                      intermediate_size=27, vocab_size=64, mlp_bias=True, num_hidden_layers=3),
    "llama_dynamic_short": case("Llama", max_position_embeddings=64, rope_parameters=rope("dynamic", factor=3.0)),
    "llama3_tied": case("Llama", tie_word_embeddings=True, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)),
    "phi3_short": case("Phi3", SHARE, original_max_position_embeddings=32, resid_pdrop=0.0, embd_pdrop=0.0,
                       rope_parameters=rope("longrope", short_factor=[1.0, 1.2, 1.5, 2.0],
                                            long_factor=[1.0, 2.0, 4.0, 8.0],
                                            original_max_position_embeddings=32)),
    "phi3_plain": case("Phi3", SHARE, resid_pdrop=0.0, embd_pdrop=0.0, tie_word_embeddings=True, sliding_window=5),
    "olmo2_tied": case("Olmo2", SHARE, tie_word_embeddings=True, num_key_value_heads=4),
    "mamba2_one_group": case("Mamba2", MAMBA2, use_conv_bias=False, tie_word_embeddings=True),
    "mamba2_groups": case("Mamba2", MAMBA2, n_groups=4, chunk_size=16, use_bias=True, state_size=3),
}
