package triton

import (
	"fmt"
	"math"
)

// reader parses what follows an operation's name, sets its operands and effect, and returns the types of its
// results.
type reader func(p *parser, o *operation) []typ

// syntax holds the readers of all operations; readers of regions refer to it, so it is initialized late.
var syntax map[string]reader

func init() {
	syntax = map[string]reader{
		"tt.get_program_id": readProgramID, "tt.make_range": readRange, "tt.splat": readSplat,
		"tt.addptr": readAddPtr,
		"tt.load":   readLoad, "tt.store": readStore, `"tt.reduce"`: readReduce, "scf.for": readFor,
		"arith.constant": readConstant, "arith.cmpi": readCompareInts, "arith.cmpf": readCompareFloats,
		"arith.select": readSelect,
		"arith.extsi":  readConvert(typ.isInt, typ.isInt, true), "arith.extf": readConvert(typ.isFloat, typ.isFloat,
			true),
		"arith.truncf": readConvert(typ.isFloat, typ.isFloat, false), "arith.sitofp": readIntToFloat,
		"arith.divsi": readDivision(func(a, b int64) int64 { return a / b }),
		"arith.remsi": readDivision(func(a, b int64) int64 { return a % b }),
	}
	for name, f := range floatUnary {
		syntax[name] = readUnary(f)
	}
	for name, f := range floatBinary {
		syntax[name] = readFloats(f)
	}
	for name, f := range intBinary {
		syntax[name] = readInts(func(a, b int64) (int64, error) { return f(a, b), nil })
	}
}

var floatUnary = map[string]func(x float64) float64{
	"arith.negf": func(x float64) float64 { return -x },
	"math.absf":  math.Abs, "math.exp": math.Exp, "math.exp2": math.Exp2, "math.log": math.Log,
	"math.sqrt": math.Sqrt, "math.tanh": math.Tanh,
	"math.rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
}

// floatBinary computes in float64, which is exact enough: rounding to 32 or fewer bits gives the same as
// computing in them.
var floatBinary = map[string]func(a, b float64) float64{
	"arith.addf":     func(a, b float64) float64 { return a + b },
	"arith.subf":     func(a, b float64) float64 { return a - b },
	"arith.mulf":     func(a, b float64) float64 { return a * b },
	"arith.divf":     func(a, b float64) float64 { return a / b },
	"arith.maximumf": func(a, b float64) float64 { return max(a, b) },
	"arith.maxnumf":  func(a, b float64) float64 { return number(a, b, max(a, b)) },
	"arith.minnumf":  func(a, b float64) float64 { return number(a, b, min(a, b)) },
}

// number returns the one of a and b that is not NaN, or c if neither is.
func number(a, b, c float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return c
}

var intBinary = map[string]func(a, b int64) int64{
	"arith.addi": func(a, b int64) int64 { return a + b },
	"arith.subi": func(a, b int64) int64 { return a - b },
	"arith.muli": func(a, b int64) int64 { return a * b },
	"arith.andi": func(a, b int64) int64 { return a & b },
	"arith.ori":  func(a, b int64) int64 { return a | b },
}

// same parses n operands of one type, which must be of a kind: %a, %b : f32.
func (p *parser) same(o *operation, n int, kind func(typ) bool) typ {
	uses := p.uses(n, n)
	p.want(":")
	t := p.kind(o, kind)
	p.take(o, t, uses...)
	return t
}

// kind parses a type, which must be of a kind.
func (p *parser) kind(o *operation, kind func(typ) bool) typ {
	t := p.typ()
	if !kind(t) {
		p.failAt(o.at, "%s: got %v: not a type it takes", o.name, t)
	}
	return t
}

func readUnary(f func(x float64) float64) reader {
	return func(p *parser, o *operation) []typ {
		o.eval = func(_ *machine, o *operation) error {
			for l, x := range o.in[0].f {
				o.out[0].f[l] = f(x)
			}
			o.out[0].fit()
			return nil
		}
		return []typ{p.same(o, 1, typ.isFloat)}
	}
}

func readFloats(f func(a, b float64) float64) reader {
	return func(p *parser, o *operation) []typ {
		o.eval = func(_ *machine, o *operation) error {
			b := o.in[1].f
			for l, x := range o.in[0].f {
				o.out[0].f[l] = f(x, b[l])
			}
			o.out[0].fit()
			return nil
		}
		return []typ{p.same(o, 2, typ.isFloat)}
	}
}

func readInts(f func(a, b int64) (int64, error)) reader {
	return func(p *parser, o *operation) []typ {
		o.eval = func(_ *machine, o *operation) (err error) {
			b := o.in[1].i
			for l, x := range o.in[0].i {
				if o.out[0].i[l], err = f(x, b[l]); err != nil {
					return fmt.Errorf("lane %d: %w", l, err)
				}
			}
			o.out[0].fit()
			return nil
		}
		return []typ{p.same(o, 2, typ.isInt)}
	}
}

func readDivision(f func(a, b int64) int64) reader {
	return readInts(func(a, b int64) (int64, error) {
		if b == 0 {
			return 0, fmt.Errorf("%d divided by 0", a)
		}
		return f(a, b), nil
	})
}

// readConvert parses %x : T to U, where U is wider than T, or narrower.
func readConvert(from, to func(typ) bool, wider bool) reader {
	return func(p *parser, o *operation) []typ {
		t, u := p.conversion(o, from, to)
		if wa, wb := widths[t.elem], widths[u.elem]; wa == wb || wider != (wa < wb) {
			p.failAt(o.at, "%s: got %v to %v: not a conversion it makes", o.name, t, u)
		}
		o.eval = func(_ *machine, o *operation) error {
			o.out[0].copyFrom(o.in[0])
			o.out[0].fit()
			return nil
		}
		return []typ{u}
	}
}

func readIntToFloat(p *parser, o *operation) []typ {
	_, u := p.conversion(o, typ.isInt, typ.isFloat)
	o.eval = func(_ *machine, o *operation) error {
		for l, x := range o.in[0].i {
			o.out[0].f[l] = float64(x)
			if u.elem != "f64" { // rounded once, not twice through 64 bits
				o.out[0].f[l] = float64(float32(x))
			}
		}
		o.out[0].fit()
		return nil
	}
	return []typ{u}
}

// conversion parses an operand and two types of the same shape.
func (p *parser) conversion(o *operation, from, to func(typ) bool) (t, u typ) {
	uses := p.uses(1, 1)
	p.want(":")
	t = p.kind(o, from)
	p.take(o, t, uses...)
	p.wantKeyword("to")
	u = p.kind(o, to)
	if t.lanes != u.lanes {
		p.failAt(o.at, "%s: got %v to %v: want one shape", o.name, t, u)
	}
	return t, u
}
