package interp

import (
	"encoding/json"
	"math"

	"github.com/galley-ml/galley/internal/hlo"
)

// fused is a call of cuDNN's fused attention, decoded from its configuration. Tensors are [batch seq heads
// dim], but results are [batch heads seq dim].
type fused struct {
	Scale  float64 `json:"fmha_scale"`
	Mask   string  `json:"mask_type"`
	Window int     `json:"sliding_window_length"`

	q, k, v tensor
}

func customCall(_ *machine, o *hlo.Operation, in []tensor) []tensor {
	target, _ := o.Attr("call_target_name").(hlo.TextAttr)
	if target == hlo.KernelTarget || target == hlo.PTXTarget {
		return kernelCall(o, in)
	}
	text, _ := o.Attr("backend_config").(hlo.TextAttr)
	var config struct {
		Attention fused `json:"cudnn_fmha_backend_config"`
	}
	if err := json.Unmarshal([]byte(text.Text()), &config); err != nil || len(in) < 3 {
		fail("custom call of %s with %d operands: %v", target, len(in), err)
	}
	f := config.Attention
	f.q, f.k, f.v = in[0], in[1], in[2]
	out := results(o)
	switch target {
	case "__cudnn$fmhaSoftmax":
		f.forward(out)
	case "__cudnn$fmhaSoftmaxBackward":
		f.backward(in[3], in[4], in[5], out)
	default:
		fail("custom call of %s: unknown", target)
	}
	for _, t := range out {
		for i, x := range t.f {
			t.f[i] = round(t.Elem, x)
		}
	}
	return out
}

func (f *fused) sees(query, key int) bool {
	return f.Mask != "CAUSAL" || key <= query && (f.Window == 0 || key > query-f.Window)
}

// place returns the index of an element of a tensor [batch seq heads dim].
func place(t tensor, b, s, h, d int) int {
	return ((b*t.Shape[1]+s)*t.Shape[2]+h)*t.Shape[3] + d
}

// swapped returns the index of an element of a tensor [batch heads seq dim].
func swapped(t tensor, b, s, h, d int) int {
	return ((b*t.Shape[1]+h)*t.Shape[2]+s)*t.Shape[3] + d
}

// each calls g for every query of every head, with its key head.
func (f *fused) each(g func(b, s, h, kv int)) {
	q := f.q.Shape
	each([]int{q[0], q[1], q[2]}, func(_ int, at []int) { g(at[0], at[1], at[2], at[2]/(q[2]/f.k.Shape[2])) })
}

// dot returns the dot product of rows of two tensors.
func dot(x tensor, from int, y tensor, to, n int) float64 {
	sum := 0.0
	for d := range n {
		sum += x.f[from+d] * y.f[to+d]
	}
	return sum
}

func (f *fused) score(b, s, h, key, kv int) float64 {
	if !f.sees(s, key) {
		return math.Inf(-1)
	}
	return f.Scale * dot(f.q, place(f.q, b, s, h, 0), f.k, place(f.k, b, key, kv, 0), f.q.Shape[3])
}

func (f *fused) forward(out []tensor) {
	keys, width := f.k.Shape[1], f.v.Shape[3]
	f.each(func(b, s, h, kv int) {
		sum := 0.0
		for key := range keys {
			p := math.Exp(f.score(b, s, h, key, kv))
			sum += p
			for d := range width {
				out[0].f[swapped(out[0], b, s, h, d)] += p * f.v.f[place(f.v, b, key, kv, d)]
			}
		}
		for d := range width {
			out[0].f[swapped(out[0], b, s, h, d)] /= sum
		}
		out[1].f[(b*f.q.Shape[2]+h)*f.q.Shape[1]+s] = math.Log(sum)
	})
}

func (f *fused) backward(lse, dy, y tensor, out []tensor) {
	keys, width := f.k.Shape[1], f.v.Shape[3]
	f.each(func(b, s, h, kv int) {
		row := place(y, b, s, h, 0)
		delta := dot(dy, row, y, row, width)
		for key := range keys {
			p := math.Exp(f.score(b, s, h, key, kv) - lse.f[(b*f.q.Shape[2]+h)*f.q.Shape[1]+s])
			ds := f.Scale * p * (dot(dy, row, f.v, place(f.v, b, key, kv, 0), width) - delta)
			for d := range width {
				out[2].f[swapped(out[2], b, key, kv, d)] += p * dy.f[row+d]
			}
			for d := range f.q.Shape[3] {
				out[0].f[swapped(out[0], b, s, h, d)] += ds * f.k.f[place(f.k, b, key, kv, d)]
				out[1].f[swapped(out[1], b, key, kv, d)] += ds * f.q.f[place(f.q, b, s, h, d)]
			}
		}
	})
}
