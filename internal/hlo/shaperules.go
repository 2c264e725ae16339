package hlo

import (
	"errors"
	"fmt"
	"slices"
)

func broadcastRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	in, out := o.In[0], o.Out[0]
	dims, err := numbers(o, "broadcast_dimensions", len(in.Shape))
	if err != nil {
		return err
	}
	for i, d := range dims {
		if d < 0 || d >= len(out.Shape) || slices.Contains(dims[:i], d) || in.Shape[i] != 1 &&
			in.Shape[i] != out.Shape[d] {
			return fmt.Errorf("dims %v do not take %v to %v", dims, in, out)
		}
	}
	return gives(o, in.Elem, out.Shape)
}

func reshapeRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	if o.In[0].Len() != o.Out[0].Len() || o.In[0].Elem != o.Out[0].Elem {
		return fmt.Errorf("got %v of %v", o.Out[0], o.In[0])
	}
	return nil
}

func transposeRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	perm, err := numbers(o, "permutation", len(o.In[0].Shape))
	if err != nil {
		return err
	}
	if !isPermutation(perm, len(perm)) {
		return fmt.Errorf("permutation is %v", perm)
	}
	shape := make([]int, len(perm))
	for i, d := range perm {
		shape[i] = o.In[0].Shape[d]
	}
	return gives(o, o.In[0].Elem, shape)
}

func sliceRule(o *Operation) error {
	if err := counts(o, 1, 1); err != nil {
		return err
	}
	n := len(o.In[0].Shape)
	start, err1 := numbers(o, "start_indices", n)
	end, err2 := numbers(o, "limit_indices", n)
	step, err3 := numbers(o, "strides", n)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	shape := make([]int, n)
	for d, size := range o.In[0].Shape {
		if start[d] < 0 || start[d] > end[d] || end[d] > size || step[d] < 1 {
			return fmt.Errorf("cannot cut %v from %v to %v in steps of %v", o.In[0], start, end, step)
		}
		shape[d] = (end[d] - start[d] + step[d] - 1) / step[d]
	}
	return gives(o, o.In[0].Elem, shape)
}

func padRule(o *Operation) error {
	if err := counts(o, 2, 1); err != nil {
		return err
	}
	x, n := o.In[0], len(o.In[0].Shape)
	low, err1 := numbers(o, "edge_padding_low", n)
	high, err2 := numbers(o, "edge_padding_high", n)
	between, err3 := numbers(o, "interior_padding", n)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if !o.In[1].Equal(TensorType{Elem: x.Elem}) {
		return fmt.Errorf("got %v as padding of %v", o.In[1], x)
	}
	shape := make([]int, n)
	for d, size := range x.Shape {
		shape[d] = low[d] + high[d] + size + max(0, size-1)*between[d]
		if between[d] < 0 || shape[d] < 0 {
			return fmt.Errorf("cannot pad %v by %v, %v and %v", x, low, high, between)
		}
	}
	return gives(o, x.Elem, shape)
}

func concatenateRule(o *Operation) error {
	if err := counts(o, -1, 1); err != nil || len(o.In) == 0 {
		return fmt.Errorf("got %d operands and %d results", len(o.In), len(o.Out))
	}
	dim, err := dimOf(o, "dimension", o.In[0])
	if err != nil {
		return err
	}
	shape, total := slices.Clone(o.In[0].Shape), 0
	for _, t := range o.In {
		if len(t.Shape) != len(shape) || t.Elem != o.In[0].Elem {
			return fmt.Errorf("cannot join %s", typeWords(o.In))
		}
		total += t.Shape[dim]
		for d := range shape {
			if d != dim && t.Shape[d] != shape[d] {
				return fmt.Errorf("cannot join %s along dim %d", typeWords(o.In), dim)
			}
		}
	}
	shape[dim] = total
	return gives(o, o.In[0].Elem, shape)
}

func reverseRule(o *Operation) error {
	dims, err := IntsOf(o.Attr("dimensions"))
	if err != nil {
		return err
	}
	if err := distinctDims(dims, o.In[0]); err != nil {
		return err
	}
	return allSame(o)
}

func distinctDims(dims []int, t TensorType) error {
	for i, d := range dims {
		if d < 0 || d >= len(t.Shape) || slices.Contains(dims[:i], d) {
			return fmt.Errorf("dims %v: want different ones of %v", dims, t)
		}
	}
	return nil
}

// wantStarts checks that there is a start, an integer scalar, for every dim, all of one type.
func wantStarts(starts []TensorType, t TensorType) error {
	if len(starts) != len(t.Shape) {
		return fmt.Errorf("got %d starts for %v", len(starts), t)
	}
	for _, s := range starts {
		if len(s.Shape) != 0 || !s.Equal(starts[0]) ||
			!slices.Contains([]string{"i64", "i32", "i16", "ui32", "ui8"}, s.Elem) {
			return fmt.Errorf("got starts %s: want integer scalars of one type", typeWords(starts))
		}
	}
	return nil
}

func dynamicSliceRule(o *Operation) error {
	if len(o.In) == 0 || len(o.Out) != 1 {
		return fmt.Errorf("got %d operands", len(o.In))
	}
	x := o.In[0]
	if err := wantStarts(o.In[1:], x); err != nil {
		return err
	}
	sizes, err := numbers(o, "slice_sizes", len(x.Shape))
	if err != nil {
		return err
	}
	for d, n := range sizes {
		if n < 0 || n > x.Shape[d] {
			return fmt.Errorf("cannot cut %v out of %v", sizes, x)
		}
	}
	return gives(o, x.Elem, sizes)
}

func dynamicUpdateRule(o *Operation) error {
	if len(o.In) < 2 || len(o.Out) != 1 {
		return fmt.Errorf("got %d operands", len(o.In))
	}
	x, y := o.In[0], o.In[1]
	if err := wantStarts(o.In[2:], x); err != nil {
		return err
	}
	if len(x.Shape) != len(y.Shape) || x.Elem != y.Elem {
		return fmt.Errorf("cannot put %v into %v", y, x)
	}
	for d, n := range y.Shape {
		if n > x.Shape[d] {
			return fmt.Errorf("cannot put %v into %v", y, x)
		}
	}
	return gives(o, x.Elem, x.Shape)
}

// wantFold checks the operands and initial values of a reduction: n of each, all operands of one shape.
func wantFold(o *Operation) (int, error) {
	n := len(o.In) / 2
	if n == 0 || len(o.In) != 2*n || len(o.Out) != n {
		return 0, fmt.Errorf("got %d operands and %d results", len(o.In), len(o.Out))
	}
	for i, t := range o.In[:n] {
		if !slices.Equal(t.Shape, o.In[0].Shape) || !o.In[n+i].Equal(TensorType{Elem: t.Elem}) {
			return 0, fmt.Errorf("got %s", typeWords(o.In))
		}
	}
	return n, nil
}

// foldGives checks the results of a reduction, all of one shape.
func foldGives(o *Operation, n int, shape []int) error {
	want := make([]TensorType, n)
	for i := range want {
		want[i] = TensorType{o.In[i].Elem, shape}
	}
	return sameTypes("results", o.Out, want)
}

func reduceRule(o *Operation) error {
	n, err := wantFold(o)
	if err != nil {
		return err
	}
	dims, err := IntsOf(o.Attr("dimensions"))
	if err != nil {
		return fmt.Errorf("dimensions: %w", err)
	}
	if err := distinctDims(dims, o.In[0]); err != nil {
		return err
	}
	var shape []int
	for d, size := range o.In[0].Shape {
		if !slices.Contains(dims, d) {
			shape = append(shape, size)
		}
	}
	return foldGives(o, n, shape)
}

// windowShape returns the number of positions of a window in a shape.
func windowShape(o *Operation, t TensorType) ([]int, error) {
	n := len(t.Shape)
	size, err1 := numbers(o, "window_dimensions", n)
	stride, err2 := numbers(o, "window_strides", n)
	padding, err3 := numbers(o, "padding", 2*n)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	shape := make([]int, n)
	for d := range shape {
		room := t.Shape[d] + padding[2*d] + padding[2*d+1]
		if size[d] < 1 || stride[d] < 1 || room < 0 {
			return nil, fmt.Errorf("windows of %v every %v with padding %v do not fit %v", size, stride, padding, t)
		}
		if room >= size[d] {
			shape[d] = (room-size[d])/stride[d] + 1
		}
	}
	return shape, nil
}

func windowRule(o *Operation) error {
	n, err := wantFold(o)
	if err != nil {
		return err
	}
	shape, err := windowShape(o, o.In[0])
	if err != nil {
		return err
	}
	return foldGives(o, n, shape)
}

func selectScatterRule(o *Operation) error {
	if err := counts(o, 3, 1); err != nil {
		return err
	}
	shape, err := windowShape(o, o.In[0])
	if err != nil {
		return err
	}
	x := o.In[0]
	if !o.In[1].Equal(TensorType{x.Elem, shape}) || !o.In[2].Equal(TensorType{Elem: x.Elem}) {
		return fmt.Errorf("got %s: want a source of shape %v", typeWords(o.In), shape)
	}
	return gives(o, x.Elem, x.Shape)
}
