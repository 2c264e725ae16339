package quant

import (
	"fmt"
	"slices"
	"sort"

	"github.com/galley-ml/galley/array"
)

// stored is what a checkpoint has of one weight, as it is laid out there.
type stored struct {
	Layout
	out, in  int
	files    Files
	stem     string
	size     int // of a group
	groups   int
	perWord  int
	expected map[string]array.Shape
}

// Check compares a weight's tensors with what a matrix [out, in] has.
func (l Layout) Check(f Files, weight string, out, in int) error {
	s, err := l.of(f, weight, out, in)
	if err != nil {
		return err
	}
	return s.check()
}

// Read reads a weight that is a matrix [out, in].
func (l Layout) Read(f Files, weight string, out, in int) (Matrix, error) {
	s, err := l.of(f, weight, out, in)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Matrix{}, err
	}
	return s.read()
}

func (l Layout) of(f Files, weight string, out, in int) (*stored, error) {
	name, _ := stem(weight)
	s := &stored{Layout: l, out: out, in: in, files: f, stem: name, size: l.Group, perWord: 32 / l.Bits}
	if s.size == 0 {
		s.size = in
	}
	if in%s.size != 0 {
		return nil, fmt.Errorf("tensor %q: %d columns: want a multiple of the group_size %d", weight, in, s.size)
	}
	s.groups = in / s.size
	words := func(n int) int { return (n + s.perWord - 1) / s.perWord }
	switch l.Method {
	case CompressedTensors:
		s.expected = map[string]array.Shape{".weight_packed": {out, words(in)}, ".weight_scale": {out, s.groups},
			".weight_shape": {2}, ".weight_zero_point": {words(out), s.groups}, ".weight_g_idx": {in}}
	case GPTQ:
		s.expected = map[string]array.Shape{".qweight": {words(in), out}, ".qzeros": {s.groups, words(out)},
			".scales": {s.groups, out}, ".g_idx": {in}}
	default:
		s.expected = map[string]array.Shape{".qweight": {in, words(out)}, ".qzeros": {s.groups, words(out)},
			".scales": {s.groups, out}}
	}
	return s, nil
}

func (s *stored) has(tensor string) bool { _, _, ok := s.files.Type(s.stem + tensor); return ok }

func (s *stored) check() error {
	for i, t := range s.tensors() {
		dtype, shape, ok := s.files.Type(s.stem + t)
		scale := t == ".scales" || t == ".weight_scale"
		switch {
		case !ok && (i < 2 || t == ".qzeros" && s.Method == GPTQ):
			return fmt.Errorf("tensor %q: missing", s.stem+t)
		case !ok:
		case !shape.Equal(s.expected[t]):
			return fmt.Errorf("tensor %q: got shape %v, want %v", s.stem+t, shape, s.expected[t])
		case scale && !dtype.IsFloat():
			return fmt.Errorf("tensor %q: got %v, want floats", s.stem+t, dtype)
		case !scale && dtype != array.I32 && (dtype != array.I64 || t != ".weight_shape"):
			return fmt.Errorf("tensor %q: got %v, want i32", s.stem+t, dtype)
		}
	}
	return nil
}

// read reads the parts and puts them into the order of a Matrix.
func (s *stored) read() (Matrix, error) {
	m := Matrix{Out: s.out, In: s.in, Group: s.size, Bits: s.Bits}
	values, err := s.words(s.tensors()[0])
	if err != nil {
		return m, err
	}
	m.Values = s.values(values)
	if err := s.scales(&m); err != nil {
		return m, err
	}
	if err := s.zeros(&m); err != nil {
		return m, err
	}
	if err := s.order(&m); err != nil {
		return m, err
	}
	return m.split(), nil
}

func (s *stored) words(tensor string) ([]uint32, error) {
	a, err := s.files.Read(s.stem + tensor)
	if err != nil {
		return nil, err
	}
	return array.Raw[uint32](a), nil
}

// values returns the integers, [out, in].
func (s *stored) values(w []uint32) []byte {
	v := make([]byte, s.out*s.in)
	switch s.Method {
	case CompressedTensors:
		row := (s.in + s.perWord - 1) / s.perWord
		for i := range v {
			v[i] = s.take(w[i/s.in*row+i%s.in/s.perWord], i%s.in%s.perWord)
		}
	case GPTQ:
		for i := range v {
			j, p := i/s.in, i%s.in
			v[i] = s.take(w[p/s.perWord*s.out+j], p%s.perWord)
		}
	default:
		for i := range v {
			v[i] = s.across(w, i%s.in, i/s.in)
		}
	}
	return v
}

func (s *stored) take(word uint32, i int) byte { return byte(word >> (i * s.Bits) & (1<<s.Bits - 1)) }

// across returns element j of row i of words that hold neighbours of a row.
func (s *stored) across(w []uint32, i, j int) byte {
	at := j % s.perWord
	if s.Method == AWQ {
		at = awqPlace(at)
	}
	return s.take(w[i*((s.out+s.perWord-1)/s.perWord)+j/s.perWord], at)
}

// awqPlace returns where in a word AWQ puts a column: the even ones come first.
func awqPlace(j int) int { return j%2*4 + j/2 }

func (s *stored) scales(m *Matrix) error {
	a, err := s.files.Read(s.stem + s.tensors()[1])
	if err != nil {
		return err
	}
	m.Scales = make([]float32, s.out*s.groups)
	for i := range m.Scales {
		from := i
		if s.Method != CompressedTensors {
			from = i%s.groups*s.out + i/s.groups
		}
		m.Scales[i] = float32(a.At(from))
	}
	return nil
}

func (s *stored) zeros(m *Matrix) error {
	tensor := ".qzeros"
	if s.Method == CompressedTensors {
		tensor = ".weight_zero_point"
	}
	if !s.has(tensor) {
		return nil
	}
	w, err := s.words(tensor)
	if err != nil {
		return err
	}
	m.Zeros = make([]byte, s.out*s.groups)
	middle := true
	for i := range m.Zeros {
		j, g := i/s.groups, i%s.groups
		if s.Method == CompressedTensors {
			m.Zeros[i] = s.take(w[j/s.perWord*s.groups+g], j%s.perWord)
		} else {
			z := int(s.across(w, g, j)) + s.ZeroLess
			if z > 255 {
				return fmt.Errorf("tensor %q: a zero point of 256: want at most 255", s.stem+tensor)
			}
			m.Zeros[i] = byte(z)
		}
		middle = middle && m.Zeros[i] == 1<<(s.Bits-1)
	}
	if middle {
		m.Zeros = nil
	}
	return nil
}

// order reads which group each column belongs to, and puts the columns of a group side by side.
func (s *stored) order(m *Matrix) error {
	tensor := ".g_idx"
	if s.Method == CompressedTensors {
		tensor = ".weight_g_idx"
	}
	if !s.has(tensor) {
		return nil
	}
	w, err := s.words(tensor)
	if err != nil {
		return err
	}
	order := make([]int32, s.in)
	for i := range order {
		order[i] = int32(i)
	}
	sort.SliceStable(order, func(a, b int) bool { return int32(w[order[a]]) < int32(w[order[b]]) })
	for i, p := range order {
		if int(int32(w[p])) != i/s.size {
			return fmt.Errorf("tensor %q: groups of unequal size: want %d columns in each of %d", s.stem+tensor,
				s.size,
				s.groups)
		}
	}
	if slices.IsSorted(order) {
		return nil
	}
	m.Order = order
	values := make([]byte, len(m.Values))
	for i := range values {
		values[i] = m.Values[i/s.in*s.in+int(order[i%s.in])]
	}
	m.Values = values
	return nil
}

// split returns a matrix with groups that products take: long ones become several of the same scale.
func (m Matrix) split() Matrix {
	size := 128
	for m.Group != m.In && m.Group%size != 0 {
		size /= 2
	}
	fine := m
	fine.Group = size
	if m.Group == size {
		return m
	}
	n, from := fine.Groups(), m.Groups()
	fine.Scales = make([]float32, m.Out*n)
	if m.Zeros != nil {
		fine.Zeros = make([]byte, m.Out*n)
	}
	for i := range fine.Scales {
		g := i/n*from + i%n*size/m.Group
		fine.Scales[i] = m.Scales[g]
		if m.Zeros != nil {
			fine.Zeros[i] = m.Zeros[g]
		}
	}
	return fine
}
