package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/galley-ml/galley/array"
)

// Pair is a key of metadata with its value: uint32, uint64, int32, float32, bool, string, or a list of
// strings, of int32 or of bool.
type Pair struct {
	Key   string
	Value any
}

// Stored is a tensor to be written.
type Stored struct {
	Name  string
	Shape array.Shape
	Kind  Kind
	Data  []byte
}

// Write writes a file in place of what was there; after an error that is as it was.
func Write(path string, meta []Pair, tensors []Stored) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gguf-*")
	if err != nil {
		return fmt.Errorf("gguf: %w", err)
	}
	err = Encode(f, meta, tensors)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("gguf: %s: %w", path, err)
	}
	return nil
}

// Encode writes a file's bytes.
func Encode(to io.Writer, meta []Pair, tensors []Stored) error {
	w := &writer{w: bufio.NewWriterSize(to, 1<<20)}
	w.raw([]byte(magic))
	w.u32(3)
	w.u64(uint64(len(tensors)))
	w.u64(uint64(len(meta)))
	for _, p := range meta {
		w.string(p.Key)
		w.value(p.Value)
	}
	at := 0
	for _, t := range tensors {
		if want, ok := t.Kind.Bytes(t.Shape.Len()); !ok || want != len(t.Data) {
			return fmt.Errorf("tensor %q: %d bytes of %v%v: want %d", t.Name, len(t.Data), t.Kind, t.Shape, want)
		}
		w.tensor(t, at)
		at += aligned(len(t.Data))
	}
	w.pad()
	for _, t := range tensors {
		w.raw(t.Data)
		w.pad()
	}
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

func aligned(n int) int { return (n + alignment - 1) / alignment * alignment }

type writer struct {
	w   *bufio.Writer
	at  int
	err error
}

func (w *writer) raw(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	w.at += len(b)
}

func (w *writer) pad()            { w.raw(make([]byte, aligned(w.at)-w.at)) }
func (w *writer) u32(x uint32)    { w.raw(binary.LittleEndian.AppendUint32(nil, x)) }
func (w *writer) u64(x uint64)    { w.raw(binary.LittleEndian.AppendUint64(nil, x)) }
func (w *writer) string(s string) { w.u64(uint64(len(s))); w.raw([]byte(s)) }

func (w *writer) tensor(t Stored, at int) {
	w.string(t.Name)
	w.u32(uint32(len(t.Shape)))
	for i := range t.Shape {
		w.u64(uint64(t.Shape[len(t.Shape)-1-i]))
	}
	w.u32(uint32(t.Kind))
	w.u64(uint64(at))
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case uint32:
		w.u32(typeU32)
		w.u32(v)
	case int32:
		w.u32(typeI32)
		w.u32(uint32(v))
	case uint64:
		w.u32(typeU64)
		w.u64(v)
	case float32:
		w.u32(typeF32)
		w.u32(math.Float32bits(v))
	case bool:
		w.u32(typeBool)
		w.raw([]byte{map[bool]byte{true: 1}[v]})
	case string:
		w.u32(typeString)
		w.string(v)
	case []string:
		w.listOf(typeString, len(v))
		for _, s := range v {
			w.string(s)
		}
	case []int32:
		w.listOf(typeI32, len(v))
		for _, x := range v {
			w.u32(uint32(x))
		}
	case []bool:
		w.listOf(typeBool, len(v))
		for _, x := range v {
			w.raw([]byte{map[bool]byte{true: 1}[x]})
		}
	default:
		w.err = fmt.Errorf("metadata: a %T cannot be written", v)
	}
}

func (w *writer) listOf(kind uint32, n int) {
	w.u32(typeArray)
	w.u32(kind)
	w.u64(uint64(n))
}
