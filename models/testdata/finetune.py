"""Records what PEFT, transformers and plain PyTorch make of the small models beside this file: adapters with their
gradients, preference losses, losses of routers, multi-token prediction. All in float64.
Run in the repository's root: python3 models/testdata/finetune.py OUT [ADAPTERS]
ADAPTERS holds adapters that Galley wrote, with the logits that it computed: PEFT reads them and compares."""
import json, os, sys
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

OUT = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5], [2, 7, 1, 8, 2, 8, 1, 8, 2]])
LABELS = torch.tensor([[1, 4, -100, 5, 9, 2, 6, 5, 3], [-100, -100, 8, 2, 8, 1, 8, -100, -100]])


def model(name):
    from transformers import AutoModelForCausalLM
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_pretrained(os.path.join(HERE, name), dtype=torch.float64, attn_implementation="eager",
                                                experts_implementation="eager" if name == "mixtral" else None)


def loss(logits, labels=LABELS):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100)


def logp(logits, labels):
    keep = labels != -100
    picked = torch.log_softmax(logits, -1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return (picked * keep).sum(-1)


def keys(name):  # as Galley calls them
    return name.replace("base_model.model.", "", 1).replace(".default", "")


def adapters():
    from peft import LoraConfig, get_peft_model
    torch.manual_seed(1)
    kinds = {
        "lora": ("llama", dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "down_proj"])),
        "dora": ("llama", dict(r=2, lora_alpha=4, use_dora=True, use_rslora=True, target_modules=["k_proj", "o_proj", "gate_proj"],
                               rank_pattern={"o_proj": 4}, alpha_pattern={"k_proj": 9})),
        "conv": ("gpt2", dict(r=2, lora_alpha=6, fan_in_fan_out=True, target_modules=["c_attn", "c_fc"])),
    }
    for name, (base, config) in kinds.items():
        m = get_peft_model(model(base), LoraConfig(task_type="CAUSAL_LM", **config))
        for n, p in m.named_parameters():
            if "lora_" in n:
                with torch.no_grad():
                    p.copy_((p + 0.2 * torch.randn_like(p)).float().double())
        dir = os.path.join(OUT, "adapters", name)
        m.save_pretrained(dir)
        m = m.double()
        for n, p in m.named_parameters():
            p.requires_grad_("lora_" in n)
        m.eval()  # GPT-2 has dropout
        out = m(input_ids=IDS).logits
        value = loss(out)
        value.backward()
        tensors = {"logits": out.detach(), "loss": value.detach()[None], "ids": IDS.int(), "labels": LABELS.int()}
        for n, p in m.named_parameters():
            if p.grad is not None:
                tensors["grad." + keys(n)] = p.grad.clone()
                p.grad = None
        # The preference loss [Rafailov et al. 2023]: row 0 is chosen, row 1 rejected; the reference is the base.
        with torch.no_grad():
            reference = logp(model(base)(input_ids=IDS).logits, LABELS)
        ours = logp(m(input_ids=IDS).logits, LABELS)
        dpo = -F.logsigmoid(0.1 * ((ours[0] - ours[1]) - (reference[0] - reference[1])))
        dpo.backward()
        tensors["dpo"] = dpo.detach()[None]
        tensors["reference"] = reference
        for n, p in m.named_parameters():
            if p.grad is not None:
                tensors["dpo." + keys(n)] = p.grad.clone()
        merged = m.merge_and_unload()
        tensors["merged"] = merged(input_ids=IDS).logits.detach()
        save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(dir, "reference.safetensors"))


def ours(root):
    from peft import PeftModel
    report = {}
    for name in sorted(os.listdir(root)):
        base = name.split("-")[0]
        if base not in ("llama", "gpt2"):
            continue
        m = PeftModel.from_pretrained(model(base), os.path.join(root, name)).double().eval()
        got = m(input_ids=torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])).logits
        want = load_file(os.path.join(root, name, "galley_logits.safetensors"))["logits"].double()
        report[name] = float((got - want).abs().max())
    print("PEFT reads Galley's adapters; largest difference of logits:", json.dumps(report))
    with open(os.path.join(OUT, "peft_reads.json"), "w") as f:
        json.dump(report, f)


def routers():
    for name in ("mixtral",):
        m = model(name)
        m.config.router_aux_loss_coef = 0.05
        m.router_aux_loss_coef = 0.05
        out = m(input_ids=IDS, labels=LABELS, output_router_logits=True, shift_labels=LABELS)
        value = loss(out.logits) + 0.05 * out.aux_loss
        value.backward()
        tensors = {"aux": out.aux_loss.detach()[None], "loss": value.detach()[None], "ids": IDS.int(), "labels": LABELS.int()}
        for i, r in enumerate(out.router_logits):
            tensors[f"router.{i}"] = r.detach()
        for n, p in m.named_parameters():
            if p.grad is not None and "gate" in n and "experts" not in n:
                tensors["grad." + n] = p.grad.clone()
        os.makedirs(os.path.join(OUT, "routers"), exist_ok=True)
        save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(OUT, "routers", name + ".safetensors"))


def multi_token():
    """DeepSeek-V3 with one layer that predicts the token after the next [DeepSeek-AI 2024, section 2.2]: the stream
    before the last norm and the next token's vector, both normalised, through one matrix, a layer and the shared head."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RMSNorm
    torch.manual_seed(5)
    config = DeepseekV3Config(
        vocab_size=24, hidden_size=16, intermediate_size=20, moe_intermediate_size=8, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, n_shared_experts=1, n_routed_experts=4, routed_scaling_factor=1.5,
        kv_lora_rank=6, q_lora_rank=8, qk_rope_head_dim=4, v_head_dim=6, qk_nope_head_dim=6, n_group=2, topk_group=1,
        num_experts_per_tok=2, first_k_dense_replace=1, norm_topk_prob=True, max_position_embeddings=64, initializer_range=0.2)
    config._attn_implementation = config._experts_implementation = "eager"
    m = DeepseekV3ForCausalLM(config)
    layer = DeepseekV3DecoderLayer(config, config.num_hidden_layers)
    enorm, hnorm, last = (DeepseekV3RMSNorm(16, config.rms_norm_eps) for _ in range(3))
    join = torch.nn.Linear(32, 16, bias=False)
    modules = {"": layer, "enorm.": enorm, "hnorm.": hnorm, "eh_proj.": join, "shared_head.norm.": last}
    for module in [m, *modules.values()]:
        for p in module.parameters():
            with torch.no_grad():
                p.copy_((0.3 * torch.randn_like(p) + (1.0 if p.dim() == 1 else 0.0)).float())
        module.double()
    for b in list(m.modules()) + list(layer.modules()):
        if hasattr(b, "e_score_correction_bias"):
            with torch.no_grad():
                b.e_score_correction_bias.copy_((0.1 * torch.randn_like(b.e_score_correction_bias.float())).double())
    state = {n: p.detach().float() for n, p in m.state_dict().items()}
    for prefix, module in modules.items():
        for n, p in module.state_dict().items():
            state[f"model.layers.{config.num_hidden_layers}.{prefix}{n}"] = p.detach().float()
    state[f"model.layers.{config.num_hidden_layers}.embed_tokens.weight"] = state["model.embed_tokens.weight"].clone()
    state[f"model.layers.{config.num_hidden_layers}.shared_head.head.weight"] = state["lm_head.weight"].clone()

    ids = IDS.clone()
    labels = torch.cat([IDS[:, 1:], torch.tensor([[3], [4]])], 1)
    grabbed = {}
    hook = m.model.norm.register_forward_pre_hook(lambda mod, args: grabbed.__setitem__("h", args[0]))
    logits = m(input_ids=ids).logits
    hook.remove()
    stream = grabbed["h"]
    nxt = m.model.embed_tokens(labels)  # the next token of every position
    x = join(torch.cat([enorm(nxt), hnorm(stream)], -1))
    n = ids.shape[1]
    mask = torch.full((n, n), float("-inf"), dtype=torch.float64).triu(1)[None, None]
    position = torch.arange(n)[None]
    y = layer(x, attention_mask=mask, position_ids=position, position_embeddings=m.model.rotary_emb(x, position))
    y = y[0] if isinstance(y, tuple) else y
    second = m.lm_head(last(y))
    # Position i predicts token i+2: the label of the position behind it; the last has none.
    after = torch.cat([labels[:, 1:], torch.full((2, 1), -100)], 1)
    main, extra = loss(logits, labels), loss(second, after)
    value = main + 0.3 * extra
    value.backward()
    tensors = {"ids": ids.int(), "labels": labels.int(), "main": main.detach()[None], "extra": extra.detach()[None],
               "loss": value.detach()[None], "logits": logits.detach(), "second": second.detach()}
    for n_, p in m.named_parameters():
        if p.grad is not None:
            tensors["grad." + n_] = p.grad.clone()
    for prefix, module in modules.items():
        for n_, p in module.named_parameters():
            if p.grad is not None:
                tensors[f"grad.model.layers.{config.num_hidden_layers}.{prefix}{n_}"] = p.grad.clone()
    dir = os.path.join(OUT, "deepseek_mtp")
    os.makedirs(dir, exist_ok=True)
    config.num_nextn_predict_layers = 1
    config.architectures = ["DeepseekV3ForCausalLM"]
    config.save_pretrained(dir)
    save_file({k: v.contiguous() for k, v in state.items()}, os.path.join(dir, "model.safetensors"), {"format": "pt"})
    save_file({k: v.contiguous() for k, v in tensors.items()}, os.path.join(dir, "reference.safetensors"))


if __name__ == "__main__":
    import traceback
    failed = 0
    parts = [adapters, routers, multi_token] + ([lambda: ours(sys.argv[2])] if len(sys.argv) > 2 else [])
    for part in parts:
        try:
            part()
        except Exception:
            traceback.print_exc()
            failed = 1
    sys.exit(failed)
