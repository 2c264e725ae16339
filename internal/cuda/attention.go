package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// Attention is what cuDNN's flash attention is told: the factor of scores, and which keys a query sees.
type Attention struct {
	Scale  float64
	Causal bool
	// Window is how many keys before its own a query sees; 0 is all.
	Window int
}

// What cuDNN's flash attention takes.
const (
	dimMax  = 128
	dimUnit = 8
	seqUnit = 2
)

// Fits reports whether cuDNN has a kernel for queries, keys and values [batch seq heads dim] on the writer's
// target: 16-bit floats, queries and keys of one sequence, all heads of one width, and no mask but causal,
// with or without a window.
func (a Attention) Fits(w *hlo.Writer, q, k, v hlo.Ref) bool {
	return w.Target() == hlo.CUDA && q.DType.IsHalf() &&
		q.Shape[1] == k.Shape[1] && q.Shape[1] > 0 && q.Shape[1]%seqUnit == 0 && q.Shape[0] > 0 && k.Shape[2] > 0 &&
		q.Shape[3] == v.Shape[3] && q.Shape[3] > 0 && q.Shape[3] <= dimMax && q.Shape[3]%dimUnit == 0 &&
		(a.Window == 0 || a.Causal)
}

// Forward calls the kernel, which gives the result, of type out, and the log-sum-exp of each row, of type
// lse.
func (a Attention) Forward(w *hlo.Writer, in []hlo.Ref, out, lse hlo.Type) []hlo.Ref {
	c := attentionCall{Attention: a, target: "__cudnn$fmhaSoftmax", dots: []dot{
		{"bmm1_dot_dimension_numbers", 3, 3, [2]int{0, 2}, [2]int{0, 2}},
		{"bmm2_dot_dimension_numbers", 3, 1, [2]int{0, 1}, [2]int{0, 2}},
	}}
	return c.write(w, in, []hlo.Type{out}, lse)
}

// Backward calls the kernel of the gradient. Its operands are queries, keys, values, log-sum-exp, the
// result's gradient and the result; it gives the gradients of the first three.
func (a Attention) Backward(w *hlo.Writer, in []hlo.Ref, out []hlo.Type) []hlo.Ref {
	c := attentionCall{Attention: a, target: "__cudnn$fmhaSoftmaxBackward", dots: []dot{
		{"bmm1_grad_gemm1_dot_dimension_numbers", 2, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm1_grad_gemm2_dot_dimension_numbers", 3, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm2_grad_gemm1_dot_dimension_numbers", 2, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm2_grad_gemm2_dot_dimension_numbers", 3, 3, [2]int{0, 2}, [2]int{0, 2}},
	}}
	return c.write(w, in, out)
}

// dot is one product inside of the kernel: which dims are summed over and which are batches.
type dot struct {
	name           string
	sumX, sumY     int
	batchX, batchY [2]int
}

func (d dot) String() string {
	return fmt.Sprintf(`"%s": {"lhs_contracting_dimensions": ["%d"], "rhs_contracting_dimensions": ["%d"], `+
		`"lhs_batch_dimensions": ["%d", "%d"], "rhs_batch_dimensions": ["%d", "%d"]}`,
		d.name, d.sumX, d.sumY, d.batchX[0], d.batchX[1], d.batchY[0], d.batchY[1])
}

// attentionCall is a call of one of cuDNN's attention kernels.
type attentionCall struct {
	Attention
	target string
	dots   []dot
}

// write writes the call. heads are results [batch seq heads dim], which the kernel gives as [batch heads seq
// dim] that are in memory as they are wanted; further ones are as they are.
func (c attentionCall) write(w *hlo.Writer, in []hlo.Ref, heads []hlo.Type, further ...hlo.Type) []hlo.Ref {
	var types []hlo.Type
	var layouts []string
	for _, t := range heads {
		s := t.Shape
		types = append(types, hlo.Type{DType: t.DType, Shape: array.Shape{s[0], s[2], s[1], s[3]}})
		layouts = append(layouts, layout(3, 1, 2, 0))
	}
	for _, t := range further {
		types, layouts = append(types, t), append(layouts, rowMajor(t.Shape))
	}
	// The kernel's scratch memory, whose size the compiler finds.
	scratch := hlo.Type{DType: array.U8, Shape: array.Shape{0}}
	types, layouts = append(types, scratch), append(layouts, rowMajor(scratch.Shape))
	r := custom(w, c.target, hlo.Quote(c.config(in[0], in[1])).String(), 2, in, types, layouts)
	for i, t := range heads {
		r[i] = w.Op("transpose", "permutation = "+hlo.Ints([]int{0, 2, 1, 3}), t, r[i])
	}
	return r[:len(r)-1]
}

// config returns what the call tells XLA about the kernel, as JSON.
func (c attentionCall) config(q, k hlo.Ref) string {
	element := map[array.DType]string{array.BF16: "BF16", array.F16: "F16"}[q.DType]
	mask := "NO_MASK"
	if c.Causal {
		mask = "CAUSAL"
	}
	words := make([]string, len(c.dots))
	for i, d := range c.dots {
		words[i] = d.String()
	}
	return fmt.Sprintf(`{"operation_queue_id": "0", "cudnn_fmha_backend_config": {"algorithm": {"algo_id": "0", `+
		`"math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"}, "is_cudnn_frontend": true, `+
		`"workspace_size": "0"}, "fmha_scale": %s, "intermediate_tensor_shape": {"element_type": "%s", `+
		`"dimensions": ["%d", "%d", "%d", "%d"], "tuple_shapes": [], "layout": {"dim_level_types": [], "dim_unique": [], `+
		`"dim_ordered": [], "minor_to_major": ["3", "2", "1", "0"], "tiles": [], "element_size_in_bits": "0", `+
		`"memory_space": "0", "index_primitive_type": "PRIMITIVE_TYPE_INVALID", `+
		`"pointer_primitive_type": "PRIMITIVE_TYPE_INVALID", "dynamic_shape_metadata_prefix_bytes": "0"}, `+
		`"is_dynamic_dimension": [false, false, false, false]}, "is_flash_attention": true, "mask_type": "%s", %s, `+
		`"dropout_rate": 0.0, "seed": 42, "sliding_window_length": %d, "max_seg_per_batch": 1, "is_paged_attention": false}}`,
		strconv.FormatFloat(c.Scale, 'g', -1, 64), element, q.Shape[0], q.Shape[2], q.Shape[1], k.Shape[1],
		mask, strings.Join(words, ", "), c.Window)
}
