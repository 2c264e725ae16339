package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/galley-ml/galley/array"
)

const (
	lengthBytes = 8
	// maxHeader is the reference reader's limit: no honest header is longer.
	maxHeader = 100_000_000
	metaKey   = "__metadata__"
)

// entry is one tensor of a header.
type entry struct {
	name       string
	format     format
	shape      array.Shape
	begin, end int64 // of its bytes, from the start of the data
}

// header is what stands before the data of a file. Invariant: entries are sorted by place, cover the data
// without gap or overlap, and each is as long as its shape and type say.
type header struct {
	entries []entry
	meta    map[string]string
	data    int64 // where in the file the data begins
}

// readHeader reads and checks the header of a file of size bytes.
func readHeader(r io.ReaderAt, size int64) (header, error) {
	text, err := headerText(r, size)
	if err != nil {
		return header{}, err
	}
	h := header{data: lengthBytes + int64(len(text))}
	if err := h.parse(text); err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	return h, h.checkPlaces(size - h.data)
}

func headerText(r io.ReaderAt, size int64) ([]byte, error) {
	if size < lengthBytes {
		return nil, fmt.Errorf("header: no length: got %d bytes, want at least %d", size, lengthBytes)
	}
	var length [lengthBytes]byte
	if err := readFull(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return nil, fmt.Errorf("header: too long: got %d bytes, want at most %d", n, maxHeader)
	}
	if rest := size - lengthBytes; int64(n) > rest {
		return nil, fmt.Errorf("header: cut short: got %d bytes, want %d", rest, n)
	}
	text := make([]byte, n)
	if err := readFull(r, text, lengthBytes); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return text, nil
}

// readFull fills p from off. A ReaderAt may say io.EOF together with the last byte, which is no error here.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("file ends early: got %d bytes at %d, want %d: %w", n, off, len(p), io.ErrUnexpectedEOF)
	}
	return err
}

func (h *header) parse(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	if len(text) == 0 || text[0] != '{' {
		return errors.New("does not begin with {")
	}
	return eachField(text, func(key string, dec *json.Decoder) error {
		if key == metaKey {
			return h.parseMeta(dec)
		}
		e, err := parseEntry(key, dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", key, err)
		}
		h.entries = append(h.entries, e)
		return nil
	})
}

func (h *header) parseMeta(dec *json.Decoder) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return fmt.Errorf("%s: %w", metaKey, err)
	}
	h.meta = map[string]string{}
	err := eachField(raw, func(key string, dec *json.Decoder) error {
		var value *string
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if value == nil {
			return fmt.Errorf("%q: got null, want a string", key)
		}
		h.meta[key] = *value
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metaKey, err)
	}
	return nil
}

// eachField calls f for each field of a JSON object, in its order; f decodes the value. It is here because
// encoding/json keeps the last of two equal names and says nothing.
func eachField(text []byte, f func(key string, dec *json.Decoder) error) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil {
		return wholeJSON(err)
	} else if t != json.Delim('{') {
		return fmt.Errorf("got %v, want an object", t)
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return wholeJSON(err)
		}
		key := t.(string) // Token yields nothing else where an object's key stands
		if seen[key] {
			return fmt.Errorf("two fields named %q", key)
		}
		seen[key] = true
		if err := f(key, dec); err != nil {
			return wholeJSON(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return wholeJSON(err)
	}
	if rest := bytes.TrimSpace(text[dec.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes follow its end", len(rest))
	}
	return nil
}

// wholeJSON gives io.EOF, the decoder's word for a text cut between two tokens, a meaning to the reader of
// the error.
func wholeJSON(err error) error {
	if err == io.EOF {
		return fmt.Errorf("JSON is cut short: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func parseEntry(name string, dec *json.Decoder) (entry, error) {
	var raw struct {
		DType   *string `json:"dtype"`
		Shape   *[]int  `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := dec.Decode(&raw); err != nil {
		return entry{}, err
	}
	switch {
	case raw.DType == nil:
		return entry{}, errors.New("no dtype")
	case raw.Shape == nil:
		return entry{}, errors.New("no shape")
	case len(raw.Offsets) != 2:
		return entry{}, fmt.Errorf("data_offsets: got %d numbers, want 2", len(raw.Offsets))
	}
	f, ok := formatNamed(*raw.DType)
	if !ok {
		return entry{}, fmt.Errorf("dtype: unknown name %q", *raw.DType)
	}
	e := entry{name: name, format: f, shape: *raw.Shape, begin: raw.Offsets[0], end: raw.Offsets[1]}
	return e, e.check()
}

// check holds e's length against its shape and type.
func (e entry) check() error {
	if e.begin < 0 || e.end < e.begin {
		return fmt.Errorf("data_offsets: got [%d,%d], want 0 <= begin <= end", e.begin, e.end)
	}
	for _, d := range e.shape {
		if d < 0 {
			return fmt.Errorf("shape: negative dim: got %v", e.shape)
		}
	}
	if !e.shape.Valid() {
		return fmt.Errorf("shape: too many elements: got %v", e.shape)
	}
	hi, total := bits.Mul64(uint64(e.shape.Len()), e.format.bits)
	if hi != 0 || total%8 != 0 || total/8 != uint64(e.end-e.begin) {
		return fmt.Errorf("data_offsets: wrong length: got %d bytes, want %s%v of %d bits each",
			e.end-e.begin, e.format.name, e.shape, e.format.bits)
	}
	return nil
}

// checkPlaces sorts the entries by place and checks that they tile size bytes of data.
func (h *header) checkPlaces(size int64) error {
	slices.SortFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.name, b.name))
	})
	var at int64
	for _, e := range h.entries {
		switch {
		case e.begin < at:
			return fmt.Errorf("tensor %q: overlaps the one before it: begins at %d, want %d", e.name, e.begin, at)
		case e.begin > at:
			return fmt.Errorf("tensor %q: gap before it: begins at %d, want %d", e.name, e.begin, at)
		case e.end > size:
			return fmt.Errorf("tensor %q: cut short: ends at %d, data at %d", e.name, e.end, size)
		}
		at = e.end
	}
	if at != size {
		return fmt.Errorf("data: got %d bytes, want %d", size, at)
	}
	return nil
}
