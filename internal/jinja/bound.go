package jinja

import (
	"errors"
	"math"
)

// maxValue bounds the bytes of one value. A template of a few lines can double a text, or nest a list in
// itself, until no memory is left.
const maxValue = 16 << 20

var errLarge = errors.New("a value is too large")

// Work by steps: a step is one node of a template, this many bytes of text, or this many elements.
const (
	stepBytes  = 4096
	stepValues = 64
)

// size is what a value takes when it is printed: elements that occur several times count each time.
type size struct{ values, bytes int }

// add counts a value and what it holds, and stops beyond maxValue.
func (s *size) add(v any) {
	s.values++
	s.bytes += 16
	if s.bytes > maxValue {
		return
	}
	switch v := v.(type) {
	case string:
		s.bytes += len(v)
	case []any:
		s.all(v)
	case tuple:
		s.all(v)
	case *Dict:
		for _, k := range v.keys {
			s.bytes += len(k)
			s.add(v.values[k])
		}
	}
}

func (s *size) all(list []any) {
	for _, v := range list {
		if s.add(v); s.bytes > maxValue {
			return
		}
	}
}

// checked returns a value that was made of others, or an error if it is too large.
func (r *renderer) checked(v any) (any, error) {
	var s size
	s.add(v)
	if s.bytes > maxValue {
		return nil, errLarge
	}
	return v, r.spend(s.values/stepValues+s.bytes/stepBytes, 0)
}

// charge counts the work of reading texts and lists, without what the lists hold.
func (r *renderer) charge(values ...any) error {
	steps := 0
	for _, v := range values {
		switch v := v.(type) {
		case string:
			steps += len(v) / stepBytes
		case []any:
			steps += len(v) / stepValues
		case tuple:
			steps += len(v) / stepValues
		}
	}
	return r.spend(steps, 0)
}

// repeated returns an error if a text of so many bytes, written n times, is too large.
func repeated(bytes, n int) error {
	if bytes > 0 && n > maxValue/bytes {
		return errLarge
	}
	return nil
}

// power returns x to the power of a y that is not negative, by squaring.
func power(x, y int64) (int64, error) {
	if math.Abs(math.Pow(float64(x), float64(y))) >= 1<<62 {
		return 0, errors.New("a power is too large")
	}
	out := int64(1)
	for ; y > 0; y >>= 1 {
		if y&1 == 1 {
			out *= x
		}
		x *= x
	}
	return out, nil
}
