package torchop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// attrs is the attributes of a recorded case. Those that an op reads are removed; the first error is kept.
type attrs struct {
	raw map[string]json.RawMessage
	err error
}

func newAttrs(text json.RawMessage) (*attrs, error) {
	a := &attrs{raw: map[string]json.RawMessage{}}
	if len(text) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(text, &a.raw); err != nil {
		return nil, err
	}
	// The orders of dims of Galley's ops; a case in another order would need other numbers.
	a.oneOf("layout", "", "batch,seq,heads,dim", "NCHW", "NCL", "NCDHW")
	return a, nil
}

// left returns an error if an attribute was invalid or was not read.
func (a *attrs) left() error {
	if a.err == nil && len(a.raw) > 0 {
		return fmt.Errorf("attribute %q is not known", slices.Sorted(maps.Keys(a.raw))[0])
	}
	return a.err
}

func (a *attrs) fail(key, format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("attribute %q: %s", key, fmt.Sprintf(format, args...))
	}
}

func (a *attrs) has(key string) bool {
	v, ok := a.raw[key]
	return ok && string(v) != "null"
}

// get returns an attribute's value; otherwise if it is omitted or null.
func get[T any](a *attrs, key string, otherwise T) T {
	v, given := a.raw[key], a.has(key)
	delete(a.raw, key)
	if !given {
		return otherwise
	}
	x := otherwise
	if err := json.Unmarshal(v, &x); err != nil {
		a.fail(key, "got %s: %v", v, err)
	}
	return x
}

func (a *attrs) int(key string, otherwise int) int    { return get(a, key, otherwise) }
func (a *attrs) bool(key string, otherwise bool) bool { return get(a, key, otherwise) }
func (a *attrs) string(key, otherwise string) string  { return get(a, key, otherwise) }
func (a *attrs) float(key string, otherwise float64) float64 {
	return float64(get(a, key, real(otherwise)))
}

// ints returns a number or a list of them; nil if it is omitted.
func (a *attrs) ints(keys ...string) []int {
	var list []int
	for _, key := range keys {
		if d := get(a, key, dims(nil)); d != nil {
			list = d
		}
	}
	return list
}

// floats returns a number or a list of them; nil if it is omitted.
func (a *attrs) floats(key string) []float64 {
	if !a.has(key) {
		delete(a.raw, key)
		return nil
	}
	var x float64
	if json.Unmarshal(a.raw[key], &x) == nil {
		delete(a.raw, key)
		return []float64{x}
	}
	return get(a, key, []float64(nil))
}

// dim returns the single number of attribute dim or axis.
func (a *attrs) dim(otherwise int) int {
	list := a.ints("dim", "axis")
	switch len(list) {
	case 0:
		return otherwise
	case 1:
		return list[0]
	}
	a.fail("dim", "got %v, want one number", list)
	return otherwise
}

// oneOf returns a word of a list, by default the first.
func (a *attrs) oneOf(key string, words ...string) string {
	got := a.string(key, words[0])
	if !slices.Contains(words, got) {
		a.fail(key, "got %q, want one of %q", got, words)
	}
	return got
}

// never reads an attribute that may only be false, 0, null or equivalent.
func (a *attrs) never(keys ...string) {
	for _, key := range keys {
		switch v := string(a.raw[key]); v {
		case "", "null", "false", "0", "0.0":
		default:
			a.fail(key, "got %s, which is not supported", v)
		}
		delete(a.raw, key)
	}
}

// reduction returns how losses are reduced, in either of PyTorch's forms.
func (a *attrs) reduction(more ...string) string {
	r := a.oneOf("reduction", append([]string{"mean", "sum", "none"}, more...)...)
	sized, reduced := a.bool("size_average", true), a.bool("reduce", true)
	switch {
	case !reduced:
		return "none"
	case !sized:
		return "sum"
	}
	return r
}

// dims is a number or a list of them.
type dims []int

// UnmarshalJSON reads either form.
func (d *dims) UnmarshalJSON(b []byte) error {
	var one int
	if err := json.Unmarshal(b, &one); err == nil {
		*d = dims{one}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(d))
}

// real is a number that may be written as "inf" or "-inf", which JSON has no number for.
type real float64

// UnmarshalJSON reads either form.
func (n *real) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	*n = real(f)
	return err
}
