package safetensors

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/galley-ml/galley/array"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// fileOf returns a file with this header and n bytes of data.
func fileOf(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func open(b []byte) (*File, error) {
	return NewFile("x.safetensors", bytes.NewReader(b), int64(len(b)))
}

func TestBadHeaders(t *testing.T) {
	tensor := func(fields string) string { return `{"a":{` + fields + `}}` }
	for _, test := range []struct {
		name, header string
		data         int
		want         string
	}{
		{"empty", ``, 0, "does not begin with {"},
		{"list", `[]`, 0, "does not begin with {"},
		{"space first", ` {}`, 0, "does not begin with {"},
		{"cut", `{"a":{"dtype":"F32"`, 0, "unexpected EOF"},
		{"more text", `{} {}`, 0, "2 bytes follow"},
		{"no UTF-8", "{\"\xff\":1}", 0, "not UTF-8"},
		{"no object", `{"a":3}`, 0, `tensor "a"`},
		{"null", `{"a":null}`, 0, "no dtype"},
		{"no dtype", tensor(`"shape":[1],"data_offsets":[0,4]`), 4, "no dtype"},
		{"no shape", tensor(`"dtype":"F32","data_offsets":[0,4]`), 4, "no shape"},
		{"no offsets", tensor(`"dtype":"F32","shape":[1]`), 4, "data_offsets: got 0 numbers, want 2"},
		{"three offsets", tensor(`"dtype":"F32","shape":[1],"data_offsets":[0,4,4]`), 4, "got 3 numbers"},
		{"unknown dtype", tensor(`"dtype":"f32","shape":[1],"data_offsets":[0,4]`), 4, `unknown name "f32"`},
		{"negative dim", tensor(`"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]`), 4, "negative dim"},
		{"fraction", tensor(`"dtype":"F32","shape":[1.5],"data_offsets":[0,4]`), 4, "1.5"},
		{"huge dim", tensor(`"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]`), 4, "99999"},
		{"huge product", tensor(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]`), 0,
			"too many"},
		{"huge bytes", tensor(`"dtype":"F64","shape":[576460752303423487],"data_offsets":[0,0]`), 0,
			"wrong length"},
		{"wrong length", tensor(`"dtype":"F32","shape":[2],"data_offsets":[0,4]`), 4, "got 4 bytes, want F32[2]"},
		{"half a byte", tensor(`"dtype":"F4","shape":[3],"data_offsets":[0,1]`), 1, "wrong length"},
		{"backward", tensor(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), 4, "got [4,0]"},
		{"negative offset", tensor(`"dtype":"F32","shape":[1],"data_offsets":[-4,0]`), 4, "got [-4,0]"},
		{"beyond", tensor(`"dtype":"F32","shape":[1],"data_offsets":[0,4]`), 3, "ends at 4, data at 3"},
		{"too much data", tensor(`"dtype":"F32","shape":[1],"data_offsets":[0,4]`), 5, "got 5 bytes, want 4"},
		{"late start", tensor(`"dtype":"F32","shape":[1],"data_offsets":[4,8]`), 8, "gap"},
		{"same name",
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2, `two fields named "a"`},
		{"overlap",
			`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3, `"b": overlaps`},
		{"gap", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, 3, `"b": gap`},
		{"metadata number", `{"__metadata__":{"a":1}}`, 0, "__metadata__"},
		{"metadata null", `{"__metadata__":{"a":null}}`, 0, "want a string"},
		{"metadata list", `{"__metadata__":[]}`, 0, "want an object"},
		{"metadata twice", `{"__metadata__":{"a":"1","a":"2"}}`, 0, "two fields"},
		{"deep", strings.Repeat(`{"a":`, 20000), 0, "depth"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(fileOf(test.header, test.data))
			wantError(t, err, "x.safetensors: ", test.want)
		})
	}
}

func TestBadLengths(t *testing.T) {
	for _, n := range []uint64{3, maxHeader + 1, 1 << 63, 1<<64 - 1} {
		b := append(binary.LittleEndian.AppendUint64(nil, n), "{}"...)
		if _, err := open(b); err == nil {
			t.Errorf("header of %d bytes in a file of 10: got no error", n)
		}
	}
}

// TestUnsupportedTypes lists what arrays cannot hold and errs only when it is read.
func TestUnsupportedTypes(t *testing.T) {
	f, err := open(fileOf(`{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},`+
		`"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},"c":{"dtype":"F4","shape":[2,1],"data_offsets":[2,3]}}`, 4))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.Names(), ""); got != "acb" {
		t.Errorf("names: got %s, want acb", got)
	}
	if d, shape, ok := f.Type("a"); d != array.Invalid || !shape.Equal(array.Shape{2}) || !ok {
		t.Errorf("type: got %v%v %v, want invalid[2] true", d, shape, ok)
	}
	_, err = f.Read("a")
	wantError(t, err, `tensor "a": dtype F8_E4M3 is not supported`)
	_, err = f.ReadRange("c", 0, 1)
	wantError(t, err, `tensor "c": dtype F4 is not supported`)
	if _, err = f.Read("b"); err != nil {
		t.Error(err)
	}
}

func TestBoolBytes(t *testing.T) {
	b := fileOf(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, 2)
	b[len(b)-1] = 2
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Read("a")
	wantError(t, err, "element 1: got 2, want 0 or 1")
}

// TestTruncated cuts a small file at every byte.
func TestTruncated(t *testing.T) {
	whole, err := os.ReadFile(write(t, samples(), map[string]string{"a": "b"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := open(whole[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes: got no error", n, len(whole))
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	f.Add(fileOf(`{}`, 0))
	f.Add(fileOf(`{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	f.Add(fileOf(`{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},"b":{"dtype":"BOOL","shape":[],"data_offsets":[3,4]}}`, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := open(b)
		if err != nil {
			return
		}
		var data int
		for _, name := range file.Names() {
			d, shape, ok := file.Type(name)
			if !ok {
				t.Fatalf("%q is listed and has no type", name)
			}
			a, err := file.Read(name)
			if err != nil {
				continue
			}
			if a.DType() != d || !a.Shape().Equal(shape) {
				t.Fatalf("%q: got %v%v, want %v%v", name, a.DType(), a.Shape(), d, shape)
			}
			data += len(a.Bytes())
		}
		if data > len(b) {
			t.Fatalf("read %d bytes of tensors from a file of %d", data, len(b))
		}
	})
}
