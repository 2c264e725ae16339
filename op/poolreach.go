package op

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// poolReach is a pooling whose windows may exceed the padding: the padding before and after x that contains
// all of them.
type poolReach struct {
	kernel, stride, dilate []int // of the dims after the channels
	low, high, beyond      []int // of all dims; beyond is the part of high that is not padding
}

func newPoolReach(x *Tensor, c PoolConfig, spatial int) (*poolReach, *Tensor) {
	kernel, stride, pad := c.lists(spatial)
	dilate := perDim(c.Dilation, spatial, 1)
	if len(x.Shape()) != spatial+2 || min(len(kernel), len(stride), len(pad), len(dilate)) < spatial {
		return nil, refuse(x, "pool",
			"%v: want batch, channels and %d more dims, and a number for each of them in "+
				"kernel %v, stride %v, padding %v and dilation %v", x.Type(), spatial, kernel, stride, pad, dilate)
	}
	r := &poolReach{kernel, stride, dilate, []int{0, 0}, []int{0, 0}, []int{0, 0}}
	for d := range spatial {
		n := x.Dim(d + 2)
		room := n + 2*pad[d] - dilate[d]*(kernel[d]-1) - 1
		if kernel[d] < 1 || stride[d] < 1 || dilate[d] < 1 || pad[d] < 0 || 2*pad[d] > kernel[d] || room < 0 ||
			n == 0 {
			return nil, refuse(x, "pool", "kernel %v, stride %v, padding %v and dilation %v do not fit %v", kernel,
				stride, pad, dilate, x.Type())
		}
		more := 0
		if last := (room + stride[d] - 1) / stride[d]; c.Ceil && last*stride[d] < n+pad[d] {
			more = last*stride[d] - room // a window that begins after the input and its padding does not count
		}
		r.low, r.high, r.beyond = append(r.low, pad[d]), append(r.high, pad[d]+max(0, more)), append(r.beyond,
			max(0, more))
	}
	return r, nil
}

func (r *poolReach) dilated() bool {
	for _, d := range r.dilate {
		if d != 1 {
			return true
		}
	}
	return false
}

// reachingMax returns the largest elements of windows that may exceed the padding or be dilated.
func reachingMax(x *Tensor, c PoolConfig, spatial int) *Tensor {
	if x.Err() != nil {
		return x
	}
	if c.ExcludePadding || c.Divisor != 0 {
		return refuse(x, "max_pool", "excluded padding or a divisor: want them of means only")
	}
	r, bad := newPoolReach(x, c, spatial)
	if bad != nil {
		return bad
	}
	whole := Pad(x, r.low, r.high, math.Inf(-1))
	if !r.dilated() {
		return maximumPool(whole, PoolConfig{Kernel: r.kernel, Stride: r.stride}, spatial)
	}
	u, bad := newUnfolding(whole, whole.Shape(), r.kernel, ConvConfig{Stride: r.stride, Dilation: r.dilate})
	if bad != nil {
		return bad
	}
	var places []*Tensor
	for offset := range u.offsets() {
		places = append(places, Slice(whole, offset.start, offset.end, offset.step))
	}
	all := Stack(places, 2)
	best := TakeAlongDim(all, Unsqueeze(ArgMax(all, 2), 2), 2) // the first of equal ones
	return Squeeze(best, 2)
}

// reachingMean returns the means of windows over the elements that count: the input, and its padding unless
// that is excluded, but never what is beyond.
func reachingMean(x *Tensor, c PoolConfig, spatial int) *Tensor {
	if x.Err() != nil {
		return x
	}
	r, bad := newPoolReach(x, c, spatial)
	if bad != nil {
		return bad
	}
	if r.dilated() {
		return refuse(x, "avg_pool", "dilation is %v: want 1: only the largest elements have it", c.Dilation)
	}
	plain := PoolConfig{Kernel: r.kernel, Stride: r.stride}
	means := averagePool(Pad(x, r.low, r.high, 0), plain, spatial)
	if c.Divisor != 0 {
		return MulScalar(means, float64(array.Shape(r.kernel).Len())/c.Divisor)
	}
	counted := Pad(OnesLike(x), r.low, r.high, 0)
	if !c.ExcludePadding {
		inner := make([]int, len(r.low))
		for d := range inner {
			inner[d] = r.high[d] - r.beyond[d]
		}
		counted = Pad(Pad(OnesLike(x), r.low, inner, 1), make([]int, len(inner)), r.beyond, 0)
	}
	return Div(means, averagePool(counted, plain, spatial))
}
