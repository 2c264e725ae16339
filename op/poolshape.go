package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
)

// PoolConfig holds the parameters of a pooling. A list of one number applies to all dims.
type PoolConfig struct {
	// Kernel is the window's size.
	Kernel []int
	// Stride is the step of the window; nil means the window's size.
	Stride []int
	// Padding is how far windows may extend beyond each edge, at most half their size; nil means 0.
	Padding []int
	// Dilation, for max pooling only, is the distance between a window's elements; nil means 1.
	Dilation []int
	// Ceil lets a last window begin within the padded input and extend beyond it.
	Ceil bool
	// ExcludePadding, for average pooling only, excludes padding from the count.
	ExcludePadding bool
	// Divisor, for average pooling only, divides the sum of each window; 0 means the number of elements that
	// count.
	Divisor float64
}

// reaches reports whether the configuration needs more than the ops themselves support.
func (c PoolConfig) reaches() bool {
	return c.Ceil || len(c.Dilation) > 0 || c.ExcludePadding || c.Divisor != 0
}

// lists returns the configuration with a number for each of the spatial dims.
func (c PoolConfig) lists(spatial int) (kernel, stride, pad []int) {
	kernel = perDim(c.Kernel, spatial, 0)
	if stride = kernel; len(c.Stride) > 0 {
		stride = perDim(c.Stride, spatial, 0)
	}
	return kernel, stride, perDim(c.Padding, spatial, 0)
}

// poolShape holds the sizes of a pooling over three dims; with fewer, the first dims have size one.
type poolShape struct {
	spatial                      int
	lead                         array.Shape // batch and channels
	in, out, kernel, stride, pad [3]int
}

func newPoolShape(x Type, kernel, stride, pad []int) (*poolShape, error) {
	n := len(kernel)
	if n < 1 || n > 3 || len(stride) != n || len(pad) != n {
		return nil, fmt.Errorf("kernel %v, stride %v and padding %v: want one number for each of 1, 2 or 3 dims",
			kernel, stride, pad)
	}
	if !x.DType.IsFloat() || len(x.Shape) != n+2 {
		return nil, fmt.Errorf("want floats of batch, channels and %d more dims: got %v", n, x)
	}
	s := &poolShape{spatial: n, lead: x.Shape[:2], in: three(x.Shape[2:], 1), out: three(nil, 1),
		kernel: three(kernel, 1), stride: three(stride, 1), pad: three(pad, 0)}
	for d := 3 - n; d < 3; d++ {
		if s.kernel[d] < 1 || s.stride[d] < 1 || s.pad[d] < 0 || s.pad[d] > s.kernel[d]/2 ||
			max(s.kernel[d], s.stride[d], s.in[d]) > maxWindow {
			return nil, fmt.Errorf("kernel %v, stride %v and padding %v: want kernels and strides from 1 to %d and "+
				"padding "+
				"of at most half the kernel", kernel, stride, pad, maxWindow)
		}
		room := s.in[d] + 2*s.pad[d] - s.kernel[d]
		switch {
		case s.in[d] == 0 && s.pad[d] == 0 && s.stride[d] == s.kernel[d]: // a shard without elements of the image
			s.out[d] = 0
		case room < 0 || s.in[d] == 0:
			return nil, fmt.Errorf("kernel %v does not fit %v padded by %v", kernel, x, pad)
		default:
			s.out[d] = room/s.stride[d] + 1
		}
	}
	return s, nil
}

// three returns a list of at most three numbers, preceded by missing up to three.
func three(list []int, missing int) [3]int {
	out := [3]int{missing, missing, missing}
	copy(out[3-len(list):], list)
	return out
}

func (s *poolShape) inputShape() array.Shape  { return append(s.lead.Clone(), s.in[3-s.spatial:]...) }
func (s *poolShape) outputShape() array.Shape { return append(s.lead.Clone(), s.out[3-s.spatial:]...) }

// size, places and count return the number of elements of one channel of the input, of the output, and of a
// window.
func (s *poolShape) size() int   { return s.in[0] * s.in[1] * s.in[2] }
func (s *poolShape) places() int { return s.out[0] * s.out[1] * s.out[2] }
func (s *poolShape) count() int  { return s.kernel[0] * s.kernel[1] * s.kernel[2] }

// rule lets batch and channels be split, and dims along which windows do not overlap. In its two sides, x
// stands for tensors with the shape of the input and y for those with that of the output.
func (s *poolShape) rule(in, out string) mesh.Rule {
	x, y := "nC", "nC"
	for d := 3 - s.spatial; d < 3; d++ {
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

// poolRule is like rule for an op whose first operand is the input.
func poolRule(x Type, kernel, stride, pad []int, in, out string) mesh.Rule {
	s, err := newPoolShape(x, kernel, stride, pad)
	if err != nil {
		return mesh.Unknown
	}
	return s.rule(in, out)
}

func poolWork(kernel []int, in, out []Type, y Type) Work {
	return Work{Flops: float64(y.Shape.Len()) * float64(array.Shape(kernel).Len()), Bytes: moved(in, out)}
}

// planes runs f for each image and channel.
func (s *poolShape) planes(env *Env, f func(plane int)) {
	env.rows(s.lead.Len(), s.size(), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			f(p)
		}
	})
}

// reach returns the part of the window of output o along dim d that is not padding.
func (s *poolShape) reach(d, o int) span {
	first := o*s.stride[d] - s.pad[d]
	return span{max(first, 0), min(first+s.kernel[d], s.in[d])}
}

// windows calls f for each output of a plane with the range that its window covers along each dim.
func (s *poolShape) windows(f func(at int, cover [3]span)) {
	at := 0
	for oz := range s.out[0] {
		for oy := range s.out[1] {
			for ox := range s.out[2] {
				f(at, [3]span{s.reach(0, oz), s.reach(1, oy), s.reach(2, ox)})
				at++
			}
		}
	}
}

// lines calls f for each line of a window with the range of its elements in the plane.
func (s *poolShape) lines(cover [3]span, f func(lo, hi int)) {
	for z := cover[0].start; z < cover[0].end; z++ {
		for y := cover[1].start; y < cover[1].end; y++ {
			line := (z*s.in[1] + y) * s.in[2]
			f(line+cover[2].start, line+cover[2].end)
		}
	}
}

// window returns the pooling for the writer.
func (s *poolShape) window() window {
	with := func(first int, of [3]int) []int { return append([]int{first, first}, of[3-s.spatial:]...) }
	return window{size: with(1, s.kernel), stride: with(1, s.stride), low: with(0, s.pad), high: with(0, s.pad)}
}
