package hlo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// field returns a list or number in a struct attribute; empty if it is omitted.
func field(o *Operation, attr, name string) ([]int, error) {
	s, ok := o.Attr(attr).(StructAttr)
	if !ok {
		return nil, fmt.Errorf("%s is %v", attr, o.Attr(attr))
	}
	a := s.Field(name)
	if a == nil {
		return nil, nil
	}
	xs, err := IntsOf(a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return xs, nil
}

func dotRule(o *Operation) error {
	if err := counts(o, 2, 1); err != nil {
		return err
	}
	const attr = "dot_dimension_numbers"
	x, y := o.In[0], o.In[1]
	batchX, err1 := field(o, attr, "lhs_batching_dimensions")
	batchY, err2 := field(o, attr, "rhs_batching_dimensions")
	sumX, err3 := field(o, attr, "lhs_contracting_dimensions")
	sumY, err4 := field(o, attr, "rhs_contracting_dimensions")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	usedX, usedY := slices.Concat(batchX, sumX), slices.Concat(batchY, sumY)
	if err := errors.Join(distinctDims(usedX, x), distinctDims(usedY, y)); err != nil {
		return err
	}
	if len(batchX) != len(batchY) || len(sumX) != len(sumY) || x.Elem != y.Elem {
		return fmt.Errorf("cannot multiply %v and %v", x, y)
	}
	var shape []int
	for i, d := range usedX {
		if x.Shape[d] != y.Shape[usedY[i]] {
			return fmt.Errorf("cannot multiply %v and %v: dims %d and %d differ", x, y, d, usedY[i])
		}
		if i < len(batchX) {
			shape = append(shape, x.Shape[d])
		}
	}
	shape = append(shape, unused(x.Shape, usedX)...)
	return gives(o, o.Out[0].Elem, append(shape, unused(y.Shape, usedY)...))
}

// unused returns the sizes of the dims that are not in a list.
func unused(shape, dims []int) []int {
	var out []int
	for d, n := range shape {
		if !slices.Contains(dims, d) {
			out = append(out, n)
		}
	}
	return out
}

// convDims finds the two dims that are not spatial, by letter, and the spatial ones in order.
func convDims(words []string, t TensorType, first, second string) (a, b int, space []int, err error) {
	a, b = slices.Index(words, first), slices.Index(words, second)
	for i := range len(words) - 2 {
		space = append(space, slices.Index(words, strconv.Itoa(i)))
	}
	if len(words) != len(t.Shape) || !isPermutation(slices.Concat([]int{a, b}, space), len(words)) {
		return 0, 0, nil, fmt.Errorf("dims %v do not fit %v", words, t)
	}
	return a, b, space, nil
}

// convSpace holds the attributes of each spatial dim.
type convSpace struct{ stride, padding, spread, dilate []int }

func newConvSpace(o *Operation, n int) (c convSpace, err error) {
	var errs [4]error
	c.stride, errs[0] = numbers(o, "window_strides", n)
	c.padding, errs[1] = numbers(o, "padding", 2*n)
	c.spread, errs[2] = numbers(o, "lhs_dilation", n)
	c.dilate, errs[3] = numbers(o, "rhs_dilation", n)
	if a, ok := o.Attr("window_reversal").(ArrayAttr); !ok || len(a.Words) != n {
		return c, fmt.Errorf("window_reversal is %v: want %d truth values", o.Attr("window_reversal"), n)
	}
	return c, errors.Join(errs[:]...)
}

// size returns the number of positions of a kernel along dim i.
func (c convSpace) size(i, n, kernel int) int {
	grown := func(n, by int) int {
		if n == 0 {
			return 0
		}
		return (n-1)*by + 1
	}
	room := grown(n, c.spread[i]) + c.padding[2*i] + c.padding[2*i+1] - grown(kernel, c.dilate[i])
	if room < 0 || c.stride[i] < 1 {
		return 0
	}
	return room/c.stride[i] + 1
}

func convRule(o *Operation) error {
	if err := counts(o, 2, 1); err != nil {
		return err
	}
	x, k, y := o.In[0], o.In[1], o.Out[0]
	dims, ok := o.Attr("dimension_numbers").(ConvAttr)
	if !ok || len(x.Shape) < 2 || len(k.Shape) != len(x.Shape) || len(y.Shape) != len(x.Shape) ||
		x.Elem != k.Elem {
		return fmt.Errorf("got %s for %v with %v", typeWords(o.In), y, o.Attr("dimension_numbers"))
	}
	xb, xf, xs, err1 := convDims(dims.In, x, "b", "f")
	ki, ko, ks, err2 := convDims(dims.Kernel, k, "i", "o")
	yb, yf, ys, err3 := convDims(dims.Out, y, "b", "f")
	c, err4 := newConvSpace(o, len(x.Shape)-2)
	groups, err5 := numbers(o, "feature_group_count", 1)
	batches, err6 := numbers(o, "batch_group_count", 1)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return err
	}
	if groups[0] < 1 || batches[0] < 1 || k.Shape[ki]*groups[0] != x.Shape[xf] || k.Shape[ko]%groups[0] != 0 ||
		k.Shape[ko]%batches[0] != 0 || x.Shape[xb]%batches[0] != 0 {
		return fmt.Errorf("%d groups and %d of batches do not fit %s", groups[0], batches[0], typeWords(o.In))
	}
	shape := make([]int, len(y.Shape))
	shape[yb], shape[yf] = x.Shape[xb]/batches[0], k.Shape[ko]
	for i := range xs {
		shape[ys[i]] = c.size(i, x.Shape[xs[i]], k.Shape[ks[i]])
	}
	return gives(o, x.Elem, shape)
}

// picking is the dimension numbers of gather and scatter: which dims of the result or updates are window
// dims, which operand dims the windows omit, and which an index selects.
type picking struct {
	window, dropped, named []int
	vector                 int
}

func newPicking(o *Operation, attr string, names [3]string, index TensorType) (p picking, err error) {
	var errs [4]error
	p.window, errs[0] = field(o, attr, names[0])
	p.dropped, errs[1] = field(o, attr, names[1])
	p.named, errs[2] = field(o, attr, names[2])
	vector, err := field(o, attr, "index_vector_dim")
	if errs[3] = err; err == nil && len(vector) != 1 {
		errs[3] = fmt.Errorf("index_vector_dim is missing")
	}
	if err := errors.Join(errs[:]...); err != nil {
		return p, err
	}
	p.vector = vector[0]
	if p.vector < 0 || p.vector > len(index.Shape) ||
		!slices.Contains([]string{"i64", "i32", "i16", "ui32", "ui8"}, index.Elem) {
		return p, fmt.Errorf("got index %v with vectors along dim %d", index, p.vector)
	}
	size := 1
	if p.vector < len(index.Shape) {
		size = index.Shape[p.vector]
	}
	if size != len(p.named) {
		return p, fmt.Errorf("index %v has %d numbers: want one for each of dims %v", index, size, p.named)
	}
	return p, nil
}

// shape returns the shape of the result or updates: the index's dims except the index vector's, with the
// window dims inserted.
func (p picking) shape(index TensorType, sizes []int) []int {
	batch := slices.Clone(index.Shape)
	if p.vector < len(batch) {
		batch = slices.Delete(batch, p.vector, p.vector+1)
	}
	window := unused(sizes, p.dropped)
	shape := make([]int, 0, len(batch)+len(window))
	for d := range len(batch) + len(window) {
		if slices.Contains(p.window, d) && len(window) > 0 {
			shape, window = append(shape, window[0]), window[1:]
		} else if len(batch) > 0 {
			shape, batch = append(shape, batch[0]), batch[1:]
		}
	}
	return shape
}

func gatherRule(o *Operation) error {
	if err := counts(o, 2, 1); err != nil {
		return err
	}
	x := o.In[0]
	p, err := newPicking(o, "dimension_numbers",
		[3]string{"offset_dims", "collapsed_slice_dims", "start_index_map"}, o.In[1])
	if err != nil {
		return err
	}
	sizes, err := numbers(o, "slice_sizes", len(x.Shape))
	if err != nil {
		return err
	}
	if err := errors.Join(distinctDims(p.dropped, x), distinctDims(p.named, x),
		distinctDims(p.window, o.Out[0])); err != nil {
		return err
	}
	for d, n := range sizes {
		if n < 0 || n > x.Shape[d] || slices.Contains(p.dropped, d) && n > 1 {
			return fmt.Errorf("cannot take %v from %v without dims %v", sizes, x, p.dropped)
		}
	}
	return gives(o, x.Elem, p.shape(o.In[1], sizes))
}

func scatterRule(o *Operation) error {
	if err := counts(o, 3, 1); err != nil {
		return err
	}
	x, src := o.In[0], o.In[2]
	p, err := newPicking(o, "scatter_dimension_numbers",
		[3]string{"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims"}, o.In[1])
	if err != nil {
		return err
	}
	if err := errors.Join(distinctDims(p.dropped, x), distinctDims(p.named, x),
		distinctDims(p.window, src)); err != nil {
		return err
	}
	if len(p.window)+len(p.dropped) != len(x.Shape) || src.Elem != x.Elem {
		return fmt.Errorf("cannot put windows %v of %v into %v", p.window, src, x)
	}
	sizes, at := make([]int, len(x.Shape)), 0
	for d := range sizes {
		if sizes[d] = 1; slices.Contains(p.dropped, d) {
			continue
		}
		sizes[d] = src.Shape[p.window[at]]
		if at++; sizes[d] > x.Shape[d] {
			return fmt.Errorf("windows of %v are larger than %v", src, x)
		}
	}
	if want := p.shape(o.In[1], sizes); !slices.Equal(src.Shape, want) {
		return fmt.Errorf("got a source %v: want shape %v", src, want)
	}
	return gives(o, x.Elem, x.Shape)
}

// team returns the size of the groups of a collective.
func team(o *Operation) (int, error) {
	a, ok := o.Attr("replica_groups").(DenseAttr)
	if !ok || len(a.Type.Shape) != 2 || len(o.In) != 1 || len(o.Out) != 1 {
		return 0, fmt.Errorf("replica_groups is %v for %d operands", o.Attr("replica_groups"), len(o.In))
	}
	return a.Type.Shape[1], nil
}

func allGatherRule(o *Operation) error {
	n, err := team(o)
	if err != nil {
		return err
	}
	dim, err := dimOf(o, "all_gather_dim", o.In[0])
	if err != nil {
		return err
	}
	shape := slices.Clone(o.In[0].Shape)
	shape[dim] *= n
	return gives(o, o.In[0].Elem, shape)
}

func reduceScatterRule(o *Operation) error {
	n, err := team(o)
	if err != nil {
		return err
	}
	dim, err := dimOf(o, "scatter_dimension", o.In[0])
	if err != nil {
		return err
	}
	shape := slices.Clone(o.In[0].Shape)
	if n == 0 || shape[dim]%n != 0 {
		return fmt.Errorf("cannot cut %v into %d along dim %d", o.In[0], n, dim)
	}
	shape[dim] /= n
	return gives(o, o.In[0].Elem, shape)
}

func allToAllRule(o *Operation) error {
	n, err := team(o)
	if err != nil {
		return err
	}
	split, err1 := dimOf(o, "split_dimension", o.In[0])
	concat, err2 := dimOf(o, "concat_dimension", o.In[0])
	count, err3 := numbers(o, "split_count", 1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	shape := slices.Clone(o.In[0].Shape)
	if count[0] != n || n == 0 || shape[split]%n != 0 {
		return fmt.Errorf("cannot cut %v into %d for groups of %d", o.In[0], count[0], n)
	}
	shape[split] /= n
	shape[concat] *= n
	return gives(o, o.In[0].Elem, shape)
}
