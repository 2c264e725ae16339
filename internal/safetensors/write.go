package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/galley-ml/galley/array"
)

// Named is a tensor with its name.
type Named struct {
	Name  string
	Array array.Array
}

// Typed is a tensor's name and type, of which nothing else is known yet.
type Typed struct {
	Name  string
	DType array.DType
	Shape array.Shape
}

func (t Named) typed() Typed { return Typed{t.Name, t.Array.DType(), t.Array.Shape()} }

// size returns how many bytes a tensor takes.
func (t Typed) size() int { return t.Shape.Len() * t.DType.Size() }

// typesOf returns the types of tensors.
func typesOf(tensors []Named) []Typed {
	types := make([]Typed, len(tensors))
	for i, t := range tensors {
		types[i] = t.typed()
	}
	return types
}

// Write writes tensors and metadata, which may be nil, as the file at path, in place of what was there. The
// same tensors give the same bytes in whatever order they come. On an error, path is as it was before.
func Write(path string, tensors []Named, metadata map[string]string) error {
	p, err := stageTensors(path, tensors, metadata)
	if err == nil {
		err = commit([]pending{p})
	}
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// stageTensors checks before it creates anything.
func stageTensors(path string, tensors []Named, metadata map[string]string) (pending, error) {
	if err := checkTypes(typesOf(tensors)); err != nil {
		return pending{}, fmt.Errorf("%s: %w", path, err)
	}
	tensors = laidOut(tensors, Named.typed)
	text, err := encodeHeader(typesOf(tensors), metadata)
	if err != nil {
		return pending{}, fmt.Errorf("%s: %w", path, err)
	}
	return stage(path, func(w io.Writer) error { return writeTensors(w, text, tensors) })
}

func checkTypes(tensors []Typed) error {
	seen := make(map[string]bool, len(tensors))
	for _, t := range tensors {
		switch {
		case seen[t.Name]:
			return fmt.Errorf("two tensors named %q", t.Name)
		case t.Name == metaKey:
			return fmt.Errorf("tensor %q: the name is the format's own", t.Name)
		case !utf8.ValidString(t.Name):
			return fmt.Errorf("tensor %q: name is not UTF-8", t.Name)
		case rank(t.DType) < 0:
			return fmt.Errorf("tensor %q: dtype %v is not supported", t.Name, t.DType)
		}
		seen[t.Name] = true
	}
	return nil
}

// laidOut returns tensors in the reference writer's order: wide elements first, then by name.
func laidOut[T any](tensors []T, typed func(T) Typed) []T {
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(x, y T) int {
		a, b := typed(x), typed(y)
		return cmp.Or(-cmp.Compare(rank(a.DType), rank(b.DType)), cmp.Compare(a.Name, b.Name))
	})
	return tensors
}

// encodeHeader returns the length and the JSON text for tensors that follow in this order.
func encodeHeader(tensors []Typed, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, lengthBytes))
	sep := byte('{')
	if len(metadata) > 0 {
		if err := field(&b, sep, metaKey, metadata); err != nil {
			return nil, err
		}
		sep = ','
	}
	at := 0
	for _, t := range tensors {
		end := at + t.size()
		if err := field(&b, sep, t.Name, info(t, at, end)); err != nil {
			return nil, err
		}
		sep, at = ',', end
	}
	if sep == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 { // so that the data begins aligned
		b.WriteByte(' ')
	}
	n := b.Len() - lengthBytes
	if n > maxHeader {
		return nil, fmt.Errorf("header: too long: got %d bytes, want at most %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(n))
	return b.Bytes(), nil
}

type tensorInfo struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

func info(t Typed, begin, end int) tensorInfo {
	shape := append([]int{}, t.Shape...) // a scalar's must be [], not null
	return tensorInfo{DType: formats[rank(t.DType)].name, Shape: shape, Offsets: [2]int{begin, end}}
}

func field(b *bytes.Buffer, sep byte, key string, value any) error {
	b.WriteByte(sep)
	if err := appendJSON(b, key); err != nil {
		return err
	}
	b.WriteByte(':')
	return appendJSON(b, value)
}

// appendJSON writes v without the escapes for HTML that encoding/json adds and the reference writer does not.
func appendJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the newline that Encode adds
	return nil
}

func writeTensors(w io.Writer, header []byte, tensors []Named) error {
	_, err := w.Write(header)
	for _, t := range tensors {
		if err != nil {
			return err
		}
		_, err = w.Write(t.Array.Bytes())
	}
	return err
}
