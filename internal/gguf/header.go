package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/galley-ml/galley/array"
)

const (
	magic     = "GGUF"
	alignment = 32
	maxDims   = 4
)

// The types of metadata.
const (
	typeU8 = iota
	typeI8
	typeU16
	typeI16
	typeU32
	typeI32
	typeF32
	typeBool
	typeString
	typeArray
	typeU64
	typeI64
	typeF64
)

// cursor reads numbers; the first error stays, and nothing longer than the file is believed.
type cursor struct {
	r    *bufio.Reader
	at   int64
	left int64
	err  error
}

var errCut = errors.New("the file ends too early: it is cut short, or not whole yet")

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *cursor) bytes(n uint64) []byte {
	if c.err != nil || n > uint64(c.left) {
		c.fail(errCut)
		return nil
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		c.fail(errCut)
		return nil
	}
	c.left, c.at = c.left-int64(n), c.at+int64(n)
	return b
}

func (c *cursor) number(size int) uint64 {
	b := c.bytes(uint64(size))
	if b == nil {
		return 0
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:])
}

func (c *cursor) u32() uint32    { return uint32(c.number(4)) }
func (c *cursor) u64() uint64    { return c.number(8) }
func (c *cursor) string() string { return string(c.bytes(c.u64())) }

// value reads a value of metadata: int64, uint64, float64, bool, string or a list of them.
func (c *cursor) value(kind uint32, depth int) any {
	switch kind {
	case typeU8, typeU16, typeU32, typeU64:
		return c.number(map[uint32]int{typeU8: 1, typeU16: 2, typeU32: 4, typeU64: 8}[kind])
	case typeI8:
		return int64(int8(c.number(1)))
	case typeI16:
		return int64(int16(c.number(2)))
	case typeI32:
		return int64(int32(c.number(4)))
	case typeI64:
		return int64(c.number(8))
	case typeF32:
		return float64(math.Float32frombits(c.u32()))
	case typeF64:
		return math.Float64frombits(c.u64())
	case typeBool:
		return c.number(1) != 0
	case typeString:
		return c.string()
	case typeArray:
		return c.list(depth)
	}
	c.fail(fmt.Errorf("metadata of type %d: want one up to %d", kind, typeF64))
	return nil
}

func (c *cursor) list(depth int) []any {
	kind, n := c.u32(), c.u64()
	if depth > 2 {
		c.fail(errors.New("metadata: lists of lists of lists: want simpler ones"))
	}
	if n > uint64(c.left) { // an element has a byte or more
		c.fail(errCut)
	}
	var list []any
	for i := uint64(0); i < n && c.err == nil; i++ {
		list = append(list, c.value(kind, depth+1))
	}
	return list
}

// header reads all before the tensors' bytes.
func (f *File) header(c *cursor) error {
	if string(c.bytes(4)) != magic {
		return errors.New("not a GGUF file: it does not begin with GGUF")
	}
	if v := c.u32(); c.err == nil && v != 2 && v != 3 {
		return fmt.Errorf("version %d: want 2 or 3", v)
	}
	tensors, pairs := c.u64(), c.u64()
	f.Meta = map[string]any{}
	for i := uint64(0); i < pairs && c.err == nil; i++ {
		key := c.string()
		if _, twice := f.Meta[key]; twice {
			return fmt.Errorf("key %q: twice", key)
		}
		f.Meta[key] = c.value(c.u32(), 0)
	}
	f.where = map[string]*Tensor{}
	for i := uint64(0); i < tensors && c.err == nil; i++ {
		if err := f.tensor(c); err != nil {
			return err
		}
	}
	return c.err
}

func (f *File) tensor(c *cursor) error {
	t := &Tensor{Name: c.string()}
	n := c.u32()
	if n > maxDims {
		return fmt.Errorf("tensor %q: %d dims: want at most %d", t.Name, n, maxDims)
	}
	t.Shape = make(array.Shape, n)
	for i := range t.Shape { // the innermost comes first
		d := c.u64()
		if d > math.MaxInt32 {
			return fmt.Errorf("tensor %q: a dim of %d", t.Name, d)
		}
		t.Shape[len(t.Shape)-1-i] = int(d)
	}
	t.Kind, t.at = Kind(c.u32()), int64(c.u64())
	if c.err != nil {
		return c.err
	}
	if _, twice := f.where[t.Name]; twice {
		return fmt.Errorf("tensor %q: twice", t.Name)
	}
	f.where[t.Name], f.names = t, append(f.names, t.Name)
	return nil
}
