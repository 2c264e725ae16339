package safetensors

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// TestEncode gives the bytes of Write, and Section the bytes of each tensor in them.
func TestEncode(t *testing.T) {
	meta := map[string]string{"a": "b"}
	want, err := os.ReadFile(write(t, samples(), meta))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Encode(&b, samples(), meta); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Error("Encode and Write give different bytes")
	}
	f, err := open(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples() {
		section, err := f.Section(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(section); err != nil || !bytes.Equal(got, s.Array.Bytes()) {
			t.Errorf("%q: got %v %v, want %v", s.Name, got, err, s.Array.Bytes())
		}
	}
	_, err = f.Section("none")
	wantError(t, err, `no tensor "none"`)
	wantError(t, Encode(io.Discard, append(samples(), samples()...), nil), "two tensors named")
}
