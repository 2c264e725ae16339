package op

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// What cuDNN's flash attention takes.
const (
	fusedDimMax  = 128
	fusedDimUnit = 8
	fusedSeqUnit = 2
)

// fused reports whether cuDNN has a kernel for an attention: 16-bit floats, queries and keys of one sequence, all heads of
// one width, and no mask but causal, with or without a window.
func (o attention) fused(w *hlo.Writer, in []hlo.Ref) bool {
	q, k, v := in[0].Shape, in[1].Shape, in[2].Shape
	return w.Target() == hlo.CUDA && in[0].DType.IsHalf() && len(in) == 3 &&
		q[1] == k[1] && q[1] > 0 && q[1]%fusedSeqUnit == 0 && q[0] > 0 && k[2] > 0 &&
		q[3] == v[3] && q[3] > 0 && q[3] <= fusedDimMax && q[3]%fusedDimUnit == 0 &&
		o.Offset == 0 && o.Cap == 0 && (o.Window == 0 || o.Causal)
}

// emitFused calls the kernel that gives the result as [batch heads seq dim], lying in memory as [batch seq heads dim], and
// the log-sum-exp of each row.
func (o attention) emitFused(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	c := fusedCall{o: o, target: "__cudnn$fmhaSoftmax", dots: []fusedDot{
		{"bmm1_dot_dimension_numbers", 3, 3, [2]int{0, 2}, [2]int{0, 2}},
		{"bmm2_dot_dimension_numbers", 3, 1, [2]int{0, 1}, [2]int{0, 2}},
	}}
	r := c.emit(w, in, []Type{out[0]}, hloType(out[1]))
	return r
}

// emitFused calls the kernel of the gradient.
func (o attentionGrad) emitFused(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	c := fusedCall{o: o.forward(), target: "__cudnn$fmhaSoftmaxBackward", dots: []fusedDot{
		{"bmm1_grad_gemm1_dot_dimension_numbers", 2, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm1_grad_gemm2_dot_dimension_numbers", 3, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm2_grad_gemm1_dot_dimension_numbers", 2, 1, [2]int{0, 1}, [2]int{0, 2}},
		{"bmm2_grad_gemm2_dot_dimension_numbers", 3, 3, [2]int{0, 2}, [2]int{0, 2}},
	}}
	d := in[0].DType
	q, k, v, y, lse, dy := in[0], in[1], in[2], w.Convert(in[3], d), in[4], w.Convert(in[5], d)
	return c.emit(w, []hlo.Ref{q, k, v, w.Convert(lse, array.F32), dy, y}, out)
}

// fusedDot is one product inside of the kernel: which dims are summed over and which are batches.
type fusedDot struct {
	name           string
	sumX, sumY     int
	batchX, batchY [2]int
}

func (d fusedDot) String() string {
	return fmt.Sprintf(`"%s": {"lhs_contracting_dimensions": ["%d"], "rhs_contracting_dimensions": ["%d"], "lhs_batch_dimensions": ["%d", "%d"], "rhs_batch_dimensions": ["%d", "%d"]}`,
		d.name, d.sumX, d.sumY, d.batchX[0], d.batchX[1], d.batchY[0], d.batchY[1])
}

// fusedCall is a call of one of cuDNN's attention kernels.
type fusedCall struct {
	o      attention
	target string
	dots   []fusedDot
}

// emit writes the call. heads are results [batch seq heads dim]; further ones are as they are.
func (c fusedCall) emit(w *hlo.Writer, in []hlo.Ref, heads []Type, further ...hlo.Type) []hlo.Ref {
	var types []hlo.Type
	var layouts []string
	for _, t := range heads {
		s := t.Shape
		types = append(types, hlo.Type{DType: t.DType, Shape: array.Shape{s[0], s[2], s[1], s[3]}})
		layouts = append(layouts, hloLayout(3, 1, 2, 0))
	}
	for _, t := range further {
		types, layouts = append(types, t), append(layouts, rowMajor(t.Shape))
	}
	// The kernel's scratch memory, whose size the compiler finds.
	types, layouts = append(types, hlo.Type{DType: array.U8, Shape: array.Shape{0}}), append(layouts, rowMajor(array.Shape{0}))
	attrs := fmt.Sprintf(`call_target_name = "%s", has_side_effect = false, backend_config = %s, api_version = 2 : i32, operand_layouts = [%s], result_layouts = [%s]`,
		c.target, hlo.Quote(c.config(in[0], in[1])), operandLayouts(in), strings.Join(layouts, ", "))
	r := w.OpN("custom_call", attrs, nil, types, in...)
	for i, t := range heads {
		r[i] = w.Op("transpose", "permutation = "+hlo.Ints([]int{0, 2, 1, 3}), hloType(t), r[i])
	}
	return r[:len(r)-1]
}

// config is what the call tells XLA about the kernel, as JSON.
func (c fusedCall) config(q, k hlo.Ref) string {
	element := map[array.DType]string{array.BF16: "BF16", array.F16: "F16"}[q.DType]
	mask := "NO_MASK"
	if c.o.Causal {
		mask = "CAUSAL"
	}
	words := make([]string, len(c.dots))
	for i, d := range c.dots {
		words[i] = d.String()
	}
	return fmt.Sprintf(`{"operation_queue_id": "0", "cudnn_fmha_backend_config": {"algorithm": {"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": {"17": "1", "24": "0"}, "is_cudnn_frontend": true, "workspace_size": "0"}, `+
		`"fmha_scale": %s, "intermediate_tensor_shape": {"element_type": "%s", "dimensions": ["%d", "%d", "%d", "%d"], "tuple_shapes": [], `+
		`"layout": {"dim_level_types": [], "dim_unique": [], "dim_ordered": [], "minor_to_major": ["3", "2", "1", "0"], "tiles": [], "element_size_in_bits": "0", "memory_space": "0", "index_primitive_type": "PRIMITIVE_TYPE_INVALID", "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID", "dynamic_shape_metadata_prefix_bytes": "0"}, "is_dynamic_dimension": [false, false, false, false]}, `+
		`"is_flash_attention": true, "mask_type": "%s", %s, "dropout_rate": 0.0, "seed": 42, "sliding_window_length": %d, "max_seg_per_batch": 1, "is_paged_attention": false}}`,
		strconv.FormatFloat(c.o.scale(q.Shape), 'g', -1, 64), element, q.Shape[0], q.Shape[2], q.Shape[1], k.Shape[1],
		mask, strings.Join(words, ", "), c.o.Window)
}

func operandLayouts(in []hlo.Ref) string {
	words := make([]string, len(in))
	for i, r := range in {
		words[i] = rowMajor(r.Shape)
	}
	return strings.Join(words, ", ")
}

// rowMajor is the layout attribute of a tensor whose last dim is contiguous.
func rowMajor(s array.Shape) string {
	dims := make([]int, len(s))
	for i := range dims {
		dims[i] = len(s) - 1 - i
	}
	return hloLayout(dims...)
}

// hloLayout is a layout attribute: dims from the one that varies fastest in memory.
func hloLayout(dims ...int) string {
	return fmt.Sprintf("dense<%s> : tensor<%dxindex>", dimList(dims), len(dims))
}
