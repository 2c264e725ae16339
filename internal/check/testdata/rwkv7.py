"""RWKV-7 in plain PyTorch, position by position, from its paper's equations [Peng et al. 2025], with the names of
parameters and configuration that flash-linear-attention has. record_model.py records its results."""
import torch
import torch.nn.functional as F
import transformers as T
from torch import nn
from types import SimpleNamespace


class RWKV7Config(T.PretrainedConfig):
    model_type = "rwkv7"

    def __init__(self, vocab_size=64, hidden_size=32, num_hidden_layers=3, head_dim=8, intermediate_size=48,
                 decay_low_rank_dim=5, gate_low_rank_dim=6, a_low_rank_dim=7, v_low_rank_dim=4, norm_eps=1e-5,
                 norm_first=True, norm_bias=True, hidden_act="sqrelu", use_l2warp=False, **more):
        self.vocab_size, self.hidden_size, self.num_hidden_layers = vocab_size, hidden_size, num_hidden_layers
        self.head_dim, self.intermediate_size, self.norm_eps = head_dim, intermediate_size, norm_eps
        self.decay_low_rank_dim, self.gate_low_rank_dim = decay_low_rank_dim, gate_low_rank_dim
        self.a_low_rank_dim, self.v_low_rank_dim, self.use_l2warp = a_low_rank_dim, v_low_rank_dim, use_l2warp
        self.norm_first, self.norm_bias, self.hidden_act = norm_first, norm_bias, hidden_act
        super().__init__(**more)


class LowRank(nn.Module):
    def __init__(self, width, rank, act, bias=True):
        super().__init__()
        self.lora = nn.Sequential(nn.Linear(width, rank, bias=False), act, nn.Linear(rank, width, bias=bias))

    def forward(self, x):
        return self.lora(x)


def before(x):
    return F.pad(x, (0, 0, 1, 0))[:, :-1]


class TimeMix(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        n = c.hidden_size
        self.heads, self.layer = n // c.head_dim, layer
        for name in "rwkvag":
            setattr(self, "x_" + name, nn.Parameter(torch.rand(1, 1, n)))
        self.k_k, self.k_a = nn.Parameter(0.7 + 0.1 * torch.randn(n)), nn.Parameter(1 + 0.1 * torch.randn(n))
        self.r_k = nn.Parameter(0.3 * torch.randn(self.heads, c.head_dim))
        for name in "rkvo":
            setattr(self, name + "_proj", nn.Linear(n, n, bias=False))
        self.w_lora = LowRank(n, c.decay_low_rank_dim, nn.Tanh())
        if layer > 0:
            self.v_lora = LowRank(n, c.v_low_rank_dim, nn.Identity())
        self.a_lora = LowRank(n, c.a_low_rank_dim, nn.Identity())
        self.g_lora = LowRank(n, c.gate_low_rank_dim, nn.Sigmoid(), bias=False)
        self.g_norm = nn.GroupNorm(self.heads, n, eps=c.head_dim * c.norm_eps)

    def forward(self, x, first):
        batch, seq, n = x.shape
        mixed = {name: x + (before(x) - x) * getattr(self, "x_" + name) for name in "rwkvag"}
        r, k, v = self.r_proj(mixed["r"]), self.k_proj(mixed["k"]), self.v_proj(mixed["v"])
        decay = torch.exp(-torch.exp(torch.tensor(-0.5)) * torch.sigmoid(self.w_lora(mixed["w"])))
        if self.layer == 0:
            first = v
        else:
            v = v + (first - v) * torch.sigmoid(self.v_lora(mixed["v"]))
        rate, gate = torch.sigmoid(self.a_lora(mixed["a"])), self.g_lora(mixed["g"])
        heads = lambda t: t.reshape(batch, seq, self.heads, -1)
        removed = F.normalize(heads(k * self.k_k), dim=-1)
        k = k * (1 + (rate - 1) * self.k_a)
        r, k, v, decay, rate = heads(r), heads(k), heads(v), heads(decay), heads(rate)
        state, out = x.new_zeros(batch, self.heads, n // self.heads, n // self.heads), []
        for t in range(seq):
            forget = (state @ removed[:, t, :, :, None]) @ (removed * rate)[:, t, :, None, :]
            state = state * decay[:, t, :, None, :] - forget + v[:, t, :, :, None] @ k[:, t, :, None, :]
            out.append((state @ r[:, t, :, :, None]).squeeze(-1))
        y = self.g_norm(torch.stack(out, 1).reshape(batch * seq, n)).reshape(batch, seq, n)
        y = y + ((r * k * self.r_k).sum(-1, keepdim=True) * v).reshape(batch, seq, n)
        return self.o_proj(y * gate), first


class ChannelMix(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.x_k = nn.Parameter(torch.rand(c.hidden_size))
        self.key = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.value = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.value(F.relu(self.key(x + (before(x) - x) * self.x_k)) ** 2)


class Block(nn.Module):
    def __init__(self, c, layer):
        super().__init__()
        norm = lambda: nn.LayerNorm(c.hidden_size, eps=c.norm_eps)
        if layer == 0 and c.norm_first:
            self.pre_norm = norm()
        self.attn_norm, self.attn, self.ffn_norm, self.ffn = norm(), TimeMix(c, layer), norm(), ChannelMix(c)

    def forward(self, x, first):
        if hasattr(self, "pre_norm"):
            x = self.pre_norm(x)
        y, first = self.attn(self.attn_norm(x), first)
        x = x + y
        return x + self.ffn(self.ffn_norm(x)), first


class Base(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Block(c, i) for i in range(c.num_hidden_layers))
        self.norm = nn.LayerNorm(c.hidden_size, eps=c.norm_eps)

    def forward(self, ids):
        x, first = self.embeddings(ids), None
        for layer in self.layers:
            x, first = layer(x, first)
        return self.norm(x)


class RWKV7ForCausalLM(T.PreTrainedModel):
    config_class = RWKV7Config

    def __init__(self, c):
        super().__init__(c)
        self.model, self.lm_head = Base(c), nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.lm_head(self.model(input_ids)))
