package dynamic

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/array"
)

// Axis is a dim whose size varies.
type Axis struct {
	Name string
	// Buckets are the sizes of compiled programs in ascending order. If empty, they are the powers of two
	// below Max, and Max.
	Buckets []int
	Max     int
}

// Config names the dims that vary.
type Config struct {
	Axes []Axis
	// In names the dims of each tensor, such as "batch,time,_": varying dims by axis, _ for fixed ones. Out
	// does the same for results, whose padding is removed; results that it does not list are left as they
	// are.
	In, Out []string
	// Fill is the padding value of each tensor; zero by default.
	Fill []float64
	// Masks lists additional tensors: "batch,time" is an f32 of the padded sizes of these axes, 1 for data
	// and 0 for padding.
	Masks []string
	// Inputs is the number of tensors after which masks are inserted; 0 means after all. For a model with
	// labels it is the number of inputs.
	Inputs int
	// Programs is the maximum number of programs; 0 means 8.
	Programs int
	// Log is called for each program, with the reason for it.
	Log func(line string)
}

// Shapes tracks the varying dims and the programs compiled for them. It is safe for concurrent use.
type Shapes struct {
	config         Config
	in, out, masks [][]int

	mu       sync.Mutex
	seen     map[string]bool
	programs []string
}

// fixed marks a dim that does not vary.
const fixed = -1

// New checks a config.
func New(c Config) (*Shapes, error) {
	if c.Programs == 0 {
		c.Programs = 8
	}
	if c.Programs < 0 {
		return nil, fmt.Errorf("dynamic: at most %d programs: want one or more", c.Programs)
	}
	if c.Inputs < 0 || c.Inputs > len(c.In) {
		return nil, fmt.Errorf("dynamic: masks behind %d of %d tensors", c.Inputs, len(c.In))
	}
	if len(c.Fill) > len(c.In) {
		return nil, fmt.Errorf("dynamic: padding for %d of %d tensors", len(c.Fill), len(c.In))
	}
	c.Axes = slices.Clone(c.Axes)
	for i, a := range c.Axes {
		var err error
		if c.Axes[i].Buckets, err = a.sizes(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(c.Axes[:i], func(b Axis) bool { return b.Name == a.Name }) {
			return nil, fmt.Errorf("dynamic: two axes are called %q", a.Name)
		}
	}
	s := &Shapes{config: c, seen: map[string]bool{}}
	for _, side := range []struct {
		words []string
		dims  *[][]int
	}{{c.In, &s.in}, {c.Out, &s.out}, {c.Masks, &s.masks}} {
		for _, word := range side.words {
			dims, err := s.dims(word)
			if err != nil {
				return nil, err
			}
			*side.dims = append(*side.dims, dims)
		}
	}
	for i, a := range c.Axes {
		if !slices.ContainsFunc(s.in, func(dims []int) bool { return slices.Contains(dims, i) }) {
			return nil, fmt.Errorf("dynamic: axis %s: no tensor of In has it", a.Name)
		}
	}
	for i, dims := range s.masks {
		if slices.Contains(dims, fixed) || len(dims) == 0 {
			return nil, fmt.Errorf("dynamic: mask %q: want axes that vary", c.Masks[i])
		}
	}
	return s, nil
}

// sizes returns an axis' buckets.
func (a Axis) sizes() ([]int, error) {
	if strings.ContainsAny(a.Name, ", ") || a.Name == "" || a.Name == "_" {
		return nil, fmt.Errorf("dynamic: an axis called %q: want a name without commas and blanks", a.Name)
	}
	list := slices.Clone(a.Buckets)
	if len(list) == 0 {
		for n := 1; n < a.Max; n *= 2 {
			list = append(list, n)
		}
		list = append(list, a.Max)
	}
	for i, n := range list {
		if n < 1 || i > 0 && n <= list[i-1] || a.Max > 0 && n > a.Max {
			return nil, fmt.Errorf("dynamic: axis %s: buckets %v up to %d: want rising sizes, or a Max alone", a.Name,
				a.Buckets, a.Max)
		}
	}
	return list, nil
}

// dims returns the axes of a tensor's dims.
func (s *Shapes) dims(word string) ([]int, error) {
	if word == "" {
		return nil, nil
	}
	var dims []int
	for _, name := range strings.Split(word, ",") {
		at := slices.IndexFunc(s.config.Axes, func(a Axis) bool { return a.Name == strings.TrimSpace(name) })
		if at < 0 && strings.TrimSpace(name) != "_" {
			return nil, fmt.Errorf("dynamic: %q has a dim %q: want an axis, or _ for a dim that does not vary", word,
				name)
		}
		dims = append(dims, at) // of _ it is fixed
	}
	return dims, nil
}

// Sizes has the sizes of the axes in a batch, and the buckets that they are padded to.
type Sizes struct{ Have, Bucket []int }

// sizesOf finds the sizes of a batch.
func (s *Shapes) sizesOf(batch []array.Array) (Sizes, error) {
	if len(batch) != len(s.in) {
		return Sizes{}, fmt.Errorf("dynamic: got %d tensors, want %d", len(batch), len(s.in))
	}
	n := Sizes{slices.Repeat([]int{fixed}, len(s.config.Axes)), make([]int, len(s.config.Axes))}
	for i, a := range batch {
		if len(a.Shape()) != len(s.in[i]) {
			return n, fmt.Errorf("dynamic: tensor %d is %v%v: want dims %q", i, a.DType(), a.Shape(), s.config.In[i])
		}
		for d, axis := range s.in[i] {
			switch size := a.Shape()[d]; {
			case axis == fixed:
			case n.Have[axis] == fixed:
				n.Have[axis] = size
			case n.Have[axis] != size:
				return n, fmt.Errorf("dynamic: tensor %d is %v%v: %s is %d in others", i, a.DType(), a.Shape(),
					s.config.Axes[axis].Name, n.Have[axis])
			}
		}
	}
	for i, a := range s.config.Axes {
		at, _ := slices.BinarySearch(a.Buckets, n.Have[i])
		if at == len(a.Buckets) {
			return n, fmt.Errorf("dynamic: %s is %d: the largest bucket is %d: list a larger one or cut the batch",
				a.Name, n.Have[i], a.Buckets[at-1])
		}
		n.Bucket[i] = a.Buckets[at]
	}
	return n, nil
}

// admit counts the program of padded tensors, or refuses one too many.
func (s *Shapes) admit(padded []array.Array, n Sizes) error {
	types := make([]string, len(padded))
	for i, a := range padded {
		types[i] = a.DType().String() + a.Shape().String()
	}
	key := strings.Join(types, " ")
	var why []string
	for i, a := range s.config.Axes {
		why = append(why, fmt.Sprintf("%s %d is padded to %d", a.Name, n.Have[i], n.Bucket[i]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[key] {
		return nil
	}
	if len(s.programs) == s.config.Programs {
		return fmt.Errorf(
			"dynamic: %s: it would be program %d of at most %d: allow more programs or list fewer buckets",
			strings.Join(why, ", "),
			len(s.programs)+1,
			s.config.Programs,
		)
	}
	s.seen[key] = true
	line := fmt.Sprintf(
		"program %d of at most %d: %s: the first batch of %s",
		len(s.programs)+1,
		s.config.Programs,
		strings.Join(why, ", "),
		key,
	)
	s.programs = append(s.programs, line)
	if s.config.Log != nil {
		s.config.Log(line)
	}
	return nil
}

// Programs returns one line per program: its index, its reason and its types.
func (s *Shapes) Programs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.programs)
}
