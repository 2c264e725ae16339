package sharding

import (
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// contractionOps are matrix products and the like.
func contractionOps() map[string]spmdOp {
	return opTable{
		"matmul":    buildMatMul,
		"matmul_v2": buildMatMul,
		"matmul+cast": func(b *spmdBuild) []*op.Tensor {
			return only(op.Cast(b.matmul(b.float(0),
				b.float(1)), array.F64))
		},
		"matmul_grad":                 buildMatMulGrad,
		"bmm":                         buildMatMul,
		"bmm_grad":                    buildMatMulGrad,
		"einsum":                      buildEinsum,
		"einsum_grad":                 buildEinsumGrad,
		"fused_gemm_epilogue":         buildGemmEpilogue,
		"linear_v2":                   buildGemmEpilogue,
		"fused_linear_param_grad_add": buildLinearParamGrad,
	}.ops()
}

func (b *spmdBuild) matmul(x, y *op.Tensor) *op.Tensor {
	return op.MatMulT(x, y, b.Attrs.bool("trans_x"), b.Attrs.bool("trans_y"))
}

func buildMatMul(b *spmdBuild) []*op.Tensor {
	b.fitMatMul()
	return only(b.matmul(b.float(0), b.float(1)))
}

// fitMatMul changes the right operand's shape so that it can be multiplied: the recorded shapes are not
// always consistent, and only their dims matter.
func (b *spmdBuild) fitMatMul() {
	x, y := b.Inputs[0].Shape, b.Inputs[1].Shape
	if len(x) < 2 || len(y) < 2 {
		return
	}
	k, at := x[len(x)-1], len(y)-2
	if b.Attrs.bool("trans_x") {
		k = x[len(x)-2]
	}
	if b.Attrs.bool("trans_y") {
		at = len(y) - 1
	}
	y[at] = k
}

func buildMatMulGrad(b *spmdBuild) []*op.Tensor {
	x, y := b.float(0), b.float(1)
	return gradients(b.matmul(x, y), b.float(2), x, y)
}

func buildEinsum(b *spmdBuild) []*op.Tensor {
	if bad := repeated(b.Attrs.text("equation")); bad != "" {
		return b.refuse("a letter twice in one operand or result, %s, is a diagonal, which einsum does not take "+
			"here", bad)
	}
	return only(op.Einsum(b.Attrs.text("equation"), b.floats(0, len(b.Inputs))...))
}

// repeated returns the first word of an equation that has a letter twice.
func repeated(equation string) string {
	for _, word := range strings.FieldsFunc(equation,
		func(r rune) bool { return strings.ContainsRune(",-> ", r) }) {
		for i, c := range word {
			if strings.ContainsRune(word[i+1:], c) {
				return word
			}
		}
	}
	return ""
}

func buildEinsumGrad(b *spmdBuild) []*op.Tensor {
	if bad := repeated(b.Attrs.text("equation")); bad != "" {
		return b.refuse("a letter twice in one operand or result, %s, is a diagonal, which einsum does not take "+
			"here", bad)
	}
	n := len(b.Inputs) - 1
	xs := b.floats(0, n)
	return gradients(op.Einsum(b.Attrs.text("equation"), xs...), b.float(n), xs...)
}

func buildGemmEpilogue(b *spmdBuild) []*op.Tensor {
	b.fitMatMul()
	y := b.matmul(b.float(0), b.float(1))
	if !b.given(2) {
		return only(y)
	}
	if n := len(y.Shape()); y.Err() == nil && n > 0 && len(b.Inputs[2].Shape) == 1 {
		b.Inputs[2].Shape = []int{y.Dim(n - 1)} // recorded for another shape of the product in some cases
	}
	return only(op.Add(y, b.float(2)))
}

// buildLinearParamGrad returns the gradients of a linear layer's weights and bias, added to given ones.
func buildLinearParamGrad(b *spmdBuild) []*op.Tensor {
	x, dy := b.float(0), b.float(1)
	lead := "abcdefgh"[:max(0, len(x.Shape())-1)]
	dw := op.Einsum(lead+"x,"+lead+"y->xy", x, dy)
	db := op.Sum(dy, upToDim(len(lead))...)
	if b.given(2) {
		dw = op.Add(dw, b.float(2))
	}
	if b.given(3) {
		db = op.Add(db, b.float(3))
	}
	if !b.Attrs.bool("has_bias") {
		return []*op.Tensor{dw, nil}
	}
	return []*op.Tensor{dw, db}
}

func upToDim(n int) []int {
	dims := make([]int, n)
	for i := range dims {
		dims[i] = i
	}
	return dims
}

// convolutionOps move a kernel over an image. Channels may come last; the kernel is always [out, in, …], and
// so the recorded results of channels-last convolutions are in channels-first order, which is how they are
// compared.
func convolutionOps() map[string]spmdOp {
	all := map[string]spmdOp{}
	for name, spatial := range map[string]int{"conv2d": 2, "depthwise_conv2d": 2, "conv3d": 3} {
		all[name] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
			return only(b.conv(b.image(0), b.float(1), spatial))
		}}
		all[name+"_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
			x, w := b.image(0), b.float(1)
			return b.fromImage(gradients(b.conv(x, w, spatial), b.float(2), x, w))
		}}
	}
	all["conv2d_transpose"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
		return only(op.ConvTranspose2D(b.image(0), b.float(1), nil, b.convConfig()))
	}}
	all["conv2d_transpose_grad"] = spmdOp{build: func(b *spmdBuild) []*op.Tensor {
		x, w := b.image(0), b.float(1)
		return b.fromImage(gradients(op.ConvTranspose2D(x, w, nil, b.convConfig()), b.float(2), x, w))
	}}
	return join(all, missing("regions of interest are not among the ops here", "roi_align", "roi_align_grad"))
}

func (b *spmdBuild) conv(x, w *op.Tensor, spatial int) *op.Tensor {
	if spatial == 3 {
		return op.Conv3D(x, w, nil, b.convConfig())
	}
	return op.Conv2D(x, w, nil, b.convConfig())
}

func (b *spmdBuild) convConfig() op.ConvConfig {
	return op.ConvConfig{
		Stride: b.Attrs.ints("strides"), Padding: b.Attrs.ints("paddings"), Dilation: b.Attrs.ints("dilations"),
		Groups: b.Attrs.int("groups", 1),
	}
}

func (b *spmdBuild) channelsLast() bool {
	f := b.Attrs.text("data_format")
	return f != "" && f[len(f)-1] == 'C'
}

// image returns operand i with channels first.
func (b *spmdBuild) image(i int) *op.Tensor {
	x := b.param(i, array.F32)
	if !b.channelsLast() {
		return x
	}
	rank := len(x.Shape())
	return op.Transpose(x, append([]int{0, rank - 1}, upToDim(rank)[1:rank-1]...)...)
}

// fromImage transposes the gradient of an image to the recorded order of dims.
func (b *spmdBuild) fromImage(grads []*op.Tensor) []*op.Tensor {
	if !b.channelsLast() || grads[0].Err() != nil {
		return grads
	}
	rank := len(grads[0].Shape())
	grads[0] = op.Transpose(grads[0], slices.Concat([]int{0}, upToDim(rank)[2:], []int{1})...)
	return grads
}
