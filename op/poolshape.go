package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// PoolConfig says how a pooling window moves. A list of one number holds for both dims.
type PoolConfig struct {
	// Kernel is the window's height and width.
	Kernel []int
	// Stride is how far the window moves at a time; nil is the window's size.
	Stride []int
	// Padding is how far the window may reach beyond each edge; nil is 0.
	Padding []int
}

// lists is the configuration with two numbers each.
func (c PoolConfig) lists() (kernel, stride, pad []int) {
	kernel = perDim(c.Kernel, 2, 0)
	if stride = kernel; len(c.Stride) > 0 {
		stride = perDim(c.Stride, 2, 0)
	}
	return kernel, stride, perDim(c.Padding, 2, 0)
}

// poolShape is the sizes of one pooling.
type poolShape struct {
	lead                         array.Shape // batch and channels
	in, out, kernel, stride, pad [2]int
}

func newPoolShape(x Type, kernel, stride, pad []int) (*poolShape, error) {
	if !x.DType.IsFloat() || len(x.Shape) != 4 {
		return nil, fmt.Errorf("want floats of batch, channels, height and width: got %v", x)
	}
	if len(kernel) != 2 || len(stride) != 2 || len(pad) != 2 {
		return nil, fmt.Errorf("kernel %v, stride %v and padding %v: want two numbers each", kernel, stride, pad)
	}
	s := &poolShape{lead: x.Shape[:2], in: [2]int(x.Shape[2:]), kernel: [2]int(kernel), stride: [2]int(stride), pad: [2]int(pad)}
	for d := range 2 {
		if kernel[d] < 1 || stride[d] < 1 || pad[d] < 0 || 2*pad[d] > kernel[d] {
			return nil, fmt.Errorf("kernel %v, stride %v and padding %v: want positive kernels and strides and padding of at most half the kernel", kernel, stride, pad)
		}
		room := s.in[d] + 2*pad[d] - kernel[d]
		if room < 0 {
			return nil, fmt.Errorf("kernel %v does not fit %v padded by %v", kernel, x, pad)
		}
		s.out[d] = room/stride[d] + 1
	}
	return s, nil
}

func (s *poolShape) inputShape() array.Shape  { return append(s.lead.Clone(), s.in[:]...) }
func (s *poolShape) outputShape() array.Shape { return append(s.lead.Clone(), s.out[:]...) }

// rule leaves batch and channels free, and dims along which windows lie side by side. In its two sides, x stands for
// what has the shape of the input and y for that of the output.
func (s *poolShape) rule(in, out string) mesh.Rule {
	x, y := "nc", "nc"
	for d := range 2 {
		i, o := letters[d:d+1], letters[4+d:5+d]
		if s.pad[d] == 0 && s.stride[d] == s.kernel[d] && s.in[d] == s.out[d]*s.kernel[d] {
			x, y = x+"("+o+i+"*)", y+o
		} else {
			x, y = x+i+"*", y+o+"*"
		}
	}
	names := strings.NewReplacer("x", x, "y", y)
	return mesh.Rule(names.Replace(in) + "->" + names.Replace(out))
}

// poolRule is rule for an op whose first operand is the input.
func poolRule(x Type, kernel, stride, pad []int, in, out string) mesh.Rule {
	s, err := newPoolShape(x, kernel, stride, pad)
	if err != nil {
		return mesh.Unknown
	}
	return s.rule(in, out)
}

// planes runs f for each image and channel.
func (s *poolShape) planes(env *Env, f func(plane int)) {
	env.rows(s.lead.Len(), s.in[0]*s.in[1], func(lo, hi int) {
		for p := lo; p < hi; p++ {
			f(p)
		}
	})
}

// windows calls f for each output of a plane with the part of its window that is not padding.
func (s *poolShape) windows(f func(at, top, bottom, left, right int)) {
	for oy := range s.out[0] {
		top := oy*s.stride[0] - s.pad[0]
		bottom := min(top+s.kernel[0], s.in[0])
		for ox := range s.out[1] {
			left := ox*s.stride[1] - s.pad[1]
			right := min(left+s.kernel[1], s.in[1])
			f(oy*s.out[1]+ox, max(top, 0), bottom, max(left, 0), right)
		}
	}
}

// window is the pooling for the writer.
func (s *poolShape) window() window {
	with := func(first int, of [2]int) []int { return []int{first, first, of[0], of[1]} }
	return window{size: with(1, s.kernel), stride: with(1, s.stride), low: with(0, s.pad), high: with(0, s.pad)}
}
