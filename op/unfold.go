package op

import "slices"

// Unfold returns the windows of a convolution over x [batch, channels, …] as columns: [batch,
// channels·window, windows], the elements of a window in order, those of each channel together.
func Unfold(x *Tensor, kernel []int, c ConvConfig) *Tensor {
	if x.Err() != nil {
		return x
	}
	u, bad := newUnfolding(x, x.Shape(), kernel, c)
	if bad != nil {
		return bad
	}
	whole := Pad(x, u.low, u.low, 0)
	var places []*Tensor
	for offset := range u.offsets() {
		places = append(places, Slice(whole, offset.start, offset.end, offset.step))
	}
	all := Stack(places, 2) // [batch, channels, window, …]
	return Reshape(all, x.Dim(0), x.Dim(1)*len(places), u.windows())
}

// Fold is the transpose of Unfold: it adds the windows back to where Unfold takes them from, in a tensor
// [batch, channels, size…].
func Fold(x *Tensor, size, kernel []int, c ConvConfig) *Tensor {
	if x.Err() != nil {
		return x
	}
	count := 1
	for _, k := range perDim(kernel, len(size), 1) {
		count *= k
	}
	if len(x.Shape()) != 3 || count < 1 || x.Dim(1)%count != 0 {
		return refuse(x, "fold", "%v: want [batch, channels·%d, windows]", x.Type(), count)
	}
	shape := append([]int{x.Dim(0), x.Dim(1) / count}, size...)
	u, bad := newUnfolding(x, shape, kernel, c)
	if bad != nil {
		return bad
	}
	if u.windows() != x.Dim(2) {
		return refuse(x, "fold", "%v: want %d windows", x.Type(), u.windows())
	}
	places := Unbind(Reshape(x, append([]int{shape[0], shape[1], count}, u.out...)...), 2)
	var sum *Tensor
	i := 0
	for offset := range u.offsets() {
		part := PadInterior(places[i], offset.start, u.behind(offset), offset.gaps, 0)
		if i++; sum == nil {
			sum = part
		} else {
			sum = Add(sum, part)
		}
	}
	whole := make([]int, len(shape))
	for d, n := range shape {
		whole[d] = n + u.low[d]
	}
	return Slice(sum, u.low, whole, ones(len(shape)))
}

// unfolding describes the windows over a tensor of some shape.
type unfolding struct {
	shape, low             []int // low is the padding on each side, of all dims
	kernel, stride, dilate []int // of the dims after the channels
	out                    []int
}

// windowOffset is one element of every window: its positions in the padded tensor.
type windowOffset struct{ start, end, step, gaps []int }

func newUnfolding(x *Tensor, shape, kernel []int, c ConvConfig) (*unfolding, *Tensor) {
	n := len(shape) - 2
	if n < 1 {
		return nil, refuse(x, "unfold", "%v: want batch, channels and one dim or more", x.Type())
	}
	pad := perDim(c.Padding, n, 0)
	u := &unfolding{shape: shape, low: append([]int{0, 0}, pad...), kernel: perDim(kernel, n, 1),
		stride: perDim(c.Stride, n, 1), dilate: perDim(c.Dilation, n, 1)}
	for d := range n {
		room := shape[d+2] + 2*pad[d] - u.dilate[d]*(u.kernel[d]-1) - 1
		if u.kernel[d] < 1 || u.stride[d] < 1 || u.dilate[d] < 1 || pad[d] < 0 || room < 0 {
			return nil, refuse(x, "unfold", "kernel %v, stride %v, dilation %v, padding %v do not fit %v", kernel,
				c.Stride, c.Dilation, c.Padding, shape)
		}
		u.out = append(u.out, room/u.stride[d]+1)
	}
	return u, nil
}

func (u *unfolding) windows() int {
	n := 1
	for _, o := range u.out {
		n *= o
	}
	return n
}

// offsets iterates over the elements of a window, the last dim fastest.
func (u *unfolding) offsets() func(yield func(windowOffset) bool) {
	return func(yield func(windowOffset) bool) {
		at := make([]int, len(u.kernel))
		for {
			if !yield(u.offset(at)) {
				return
			}
			d := len(at) - 1
			for ; d >= 0; d-- {
				if at[d]++; at[d] < u.kernel[d] {
					break
				}
				at[d] = 0
			}
			if d < 0 {
				return
			}
		}
	}
}

func (u *unfolding) offset(at []int) windowOffset {
	o := windowOffset{start: []int{0, 0}, end: slices.Clone(u.shape[:2]), step: []int{1, 1}, gaps: []int{0, 0}}
	for d, k := range at {
		first := k * u.dilate[d]
		o.start = append(o.start, first)
		o.end = append(o.end, first+(u.out[d]-1)*u.stride[d]+1)
		o.step, o.gaps = append(o.step, u.stride[d]), append(o.gaps, u.stride[d]-1)
	}
	return o
}

// behind returns how much of the padded tensor comes after the last position of an offset.
func (u *unfolding) behind(o windowOffset) []int {
	rest := make([]int, len(u.shape))
	for d, n := range u.shape {
		rest[d] = n + 2*u.low[d] - o.end[d]
	}
	return rest
}
