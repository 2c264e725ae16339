package comm

import (
	"encoding/binary"
	"fmt"

	"github.com/galley-ml/galley/array"
)

// A signature is a call without its arrays, as bytes: what processes send each other about their members.

// AppendSignature adds the call's signature to b.
func (c *Call) AppendSignature(b []byte) []byte {
	b = append(b, byte(c.Kind), byte(c.Reduce))
	for _, v := range [...]int{c.Dim, c.Concat, c.Root, c.Tag} {
		b = binary.AppendVarint(b, int64(v))
	}
	b = appendInts(b, c.Sizes)
	b = binary.AppendUvarint(b, uint64(len(c.Pairs)))
	for _, p := range c.Pairs {
		b = binary.AppendVarint(binary.AppendVarint(b, int64(p.Source)), int64(p.Target))
	}
	return appendType(appendType(b, c.inType()), c.dstType())
}

func appendInts(b []byte, list []int) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, v := range list {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

func appendType(b []byte, t typ) []byte {
	b = append(b, byte(t.dtype))
	if t.isValid() {
		b = appendInts(b, t.shape)
	}
	return b
}

// ParseSignature reads the call of a member in another process, and returns the rest of b. The call has only
// the types of its arrays; Fill adds the operand.
func ParseSignature(b []byte, g *Group) (*Call, []byte, error) {
	r := &signatureReader{rest: b}
	c := &Call{Group: g, Kind: Kind(r.byte()), Reduce: Reduce(r.byte())}
	for _, v := range [...]*int{&c.Dim, &c.Concat, &c.Root, &c.Tag} {
		*v = r.int()
	}
	c.Sizes = r.ints()
	if n := r.count(); n > 0 {
		c.Pairs = make([]Pair, n)
		for i := range c.Pairs {
			c.Pairs[i] = Pair{r.int(), r.int()}
		}
	}
	c.remote = &remoteTypes{in: r.typ(), dst: r.typ()}
	if !r.bad {
		r.bad = !c.plausible()
	}
	if r.bad {
		return nil, nil, fmt.Errorf("signature of a call: %d bytes cannot be read", len(b))
	}
	return c, r.rest, nil
}

// plausible reports whether the call could have passed Check in its own process, which plans rely on.
func (c *Call) plausible() bool {
	if int(c.Kind) >= len(kinds) || int(c.Reduce) >= len(reduces) {
		return false
	}
	t := c.inType()
	switch {
	case c.checkPeers() != nil, c.contributes() && !t.isValid():
		return false
	case c.Kind == Recv:
		return c.dstType().isValid()
	case c.Kind.reduces() && !c.Reduce.Takes(t.dtype):
		return false
	}
	return !c.contributes() || c.checkDims() == nil && c.checkSizes() == nil
}

// Operand returns the bytes of the member's input; nil if it has none.
func (c *Call) Operand() []byte {
	if !c.contributes() {
		return nil
	}
	return c.In.Bytes()
}

// Fill reads the operand of a member in another process from the front of b.
func (c *Call) Fill(b []byte) (rest []byte, err error) {
	if !c.contributes() {
		return b, nil
	}
	t := c.inType()
	if len(b) < t.bytes() {
		return nil, fmt.Errorf("operand of %v: got %d bytes, want %d", c, len(b), t.bytes())
	}
	c.In = array.New(t.dtype, t.shape...)
	return b[copy(c.In.Bytes(), b):], nil
}

// signatureReader reads numbers; after malformed input it returns zeros and is marked bad.
type signatureReader struct {
	rest []byte
	bad  bool
}

func (r *signatureReader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *signatureReader) int() int {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// count reads the length of a list whose elements have at least one byte each.
func (r *signatureReader) count() int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(len(r.rest)) {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *signatureReader) ints() []int {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]int, n)
	for i := range list {
		list[i] = r.int()
	}
	return list
}

func (r *signatureReader) typ() typ {
	t := typ{dtype: array.DType(r.byte())}
	if !t.isValid() {
		return t
	}
	t.shape = r.ints()
	if !t.dtype.IsValid() || !t.shape.Valid() {
		r.bad = true
		return typ{}
	}
	return t
}
