package packed

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/internal/quant"
)

// Weight is a matrix [out, in], packed.
type Weight interface {
	// Out and In are its dims.
	Out() int
	In() int
	// Multiply sets y[i*Out+j] to the product of row i of x and row j of the weight, for so many rows of x.
	Multiply(p *kernel.Pool, y, x []float32, rows int)
	// Row writes row j to dst: a table of vectors may be a weight, too.
	Row(dst []float32, j int)
	// Bytes returns the memory that it takes, which is what multiplying one row reads.
	Bytes() int
}

// Format is how elements are kept.
type Format string

// The formats. Auto keeps bfloat16 as it is and all others as float32; the integers come in groups of 32.
const (
	Auto Format = ""
	F32  Format = "f32"
	BF16 Format = "bf16"
	Int8 Format = "int8"
	Int4 Format = "int4"
)

// Formats is like all that Pack knows.
func Formats() []Format { return []Format{F32, BF16, Int8, Int4} }

// Kept returns the format of weights that small integers would harm most, or help least: tables and routers.
func (f Format) Kept() Format {
	if f == Int8 || f == Int4 {
		return Auto
	}
	return f
}

// Source is matrices [out, in] one below the other, which become one weight.
type Source struct{ parts []part }

// part is rows first to first+rows of a matrix, where transposed is that they are its columns.
type part struct {
	array.Array
	transposed  bool
	first, rows int
}

// Rows returns the source of matrices that are stored [out, in].
func Rows(a ...array.Array) Source {
	var s Source
	for _, a := range a {
		s.parts = append(s.parts, part{Array: a, rows: dim(a, 0)})
	}
	return s
}

// Columns returns the source of a matrix that is stored [in, out].
func Columns(a array.Array) Source {
	return Source{parts: []part{{Array: a, transposed: true, rows: dim(a, 1)}}}
}

// dim returns a dim of what should be a matrix; check reports what is none.
func dim(a array.Array, i int) int {
	if len(a.Shape()) != 2 {
		return 0
	}
	return a.Shape()[i]
}

// Cut returns rows lo to hi of a source of one matrix.
func (s Source) Cut(lo, hi int) Source {
	p := s.parts[0]
	p.first, p.rows = p.first+lo, hi-lo
	return Source{parts: []part{p}}
}

// Join returns sources one below the other.
func Join(all ...Source) (s Source) {
	for _, a := range all {
		s.parts = append(s.parts, a.parts...)
	}
	return s
}

func (p part) out() int { return p.rows }

func (p part) in() int {
	if p.transposed {
		return p.Shape()[0]
	}
	return p.Shape()[1]
}

// Pack packs a source.
func Pack(f Format, s Source) (Weight, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if f == Auto {
		f = F32
		if s.all(array.BF16) {
			f = BF16
		}
	}
	switch f {
	case F32:
		return pack(s, func(x float32) float32 { return x }), nil
	case BF16:
		return pack(s, kernel.F32ToBF16), nil
	case Int8:
		return packGrouped([]quant.Matrix{s.rounded(quant.Config{Bits: 8, Group: 32})})
	case Int4:
		return packGrouped([]quant.Matrix{s.rounded(quant.Config{Bits: 4, Group: 32, Signed: true})})
	}
	return nil, fmt.Errorf("packed: weights as %q: want one of %v", f, Formats())
}

// rounded returns a source as integers.
func (s Source) rounded(c quant.Config) quant.Matrix {
	in, out, at := s.parts[0].in(), 0, 0
	for _, p := range s.parts {
		out += p.out()
	}
	m, row := quant.Empty(c, out, in), make([]float32, in)
	for _, p := range s.parts {
		for j := range p.out() {
			p.row(row, j)
			m.RoundRow(c, at+j, row)
		}
		at += p.out()
	}
	return m
}

func (s Source) check() error {
	if len(s.parts) == 0 {
		return fmt.Errorf("packed: no matrix")
	}
	for _, p := range s.parts {
		if len(p.Shape()) != 2 || !p.DType().IsFloat() {
			return fmt.Errorf("packed: a %v%v: want a matrix of floats", p.DType(), p.Shape())
		}
		if p.in() != s.parts[0].in() {
			return fmt.Errorf("packed: matrices of %d and %d columns: want equally many", s.parts[0].in(), p.in())
		}
	}
	return nil
}

func (s Source) all(d array.DType) bool {
	for _, p := range s.parts {
		if p.DType() != d {
			return false
		}
	}
	return true
}

// row reads row j of a part; one that is transposed is read element by element.
func (p part) row(dst []float32, j int) {
	j += p.first
	first, step := j*p.in(), 1
	if p.transposed {
		first, step = j, p.Shape()[1]
	}
	if step == 1 && Floats(dst, p.Array, first) {
		return
	}
	for i := range dst {
		dst[i] = float32(p.At(first + i*step))
	}
}

// Floats reads len(dst) elements of a from element first on; it reports whether a's dtype is one of 16 or 32
// bits.
func Floats(dst []float32, a array.Array, first int) bool {
	last := first + len(dst)
	switch a.DType() {
	case array.F32:
		copy(dst, array.Data[float32](a)[first:last])
	case array.BF16:
		kernel.BF16sToF32(dst, array.Raw[uint16](a)[first:last])
	case array.F16:
		kernel.F16sToF32(dst, array.Raw[uint16](a)[first:last])
	default:
		return false
	}
	return true
}
