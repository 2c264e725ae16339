package torchop

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
)

// TestAttributes: an attribute that an op does not have is refused, and so is a value that it cannot have.
func TestAttributes(t *testing.T) {
	for _, test := range []struct{ name, attrs, want string }{
		{"softplus", `{"delta": 2}`, `attribute "delta" is not known`},
		{"cumsum", `{"dim": 0, "keepdim": true}`, `attribute "keepdim" is not known`},
		{"gelu", `{"approximate": "cubic"}`, `want one of ["none" "tanh"]`},
		{"max_pool2d", `{"kernel": 2, "return_indices": true}`, `attribute "return_indices": got true`},
		{"attention", `{"layout": "batch,heads,seq,dim"}`, `attribute "layout"`},
		{"softpluss", `{}`, "no such op: the nearest is softplus"},
		{"argmax", `{"dim": [0, 1]}`, ""},
		{"cross_entropy", `{"reduction": "median"}`, `attribute "reduction"`},
	} {
		_, err := New(test.name, json.RawMessage(test.attrs))
		if test.want == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: got %v, want %q", test.name, test.attrs, err, test.want)
		}
	}
}

// TestMisfit: attributes that do not fit the operands are an error, whatever they are.
func TestMisfit(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	x := d.NewSession().Tensor(array.FromSlice([]float64{1, 2, 3}, 3))
	for name, attrs := range map[string]string{
		"chunk": `{"chunks": 2, "dim": 5}`, "movedim": `{"source": [4], "destination": [0]}`,
		"split":  `{"sizes": 2, "dim": 3}`,
		"median": `{"dim": 7}`,
	} {
		f, err := New(name, json.RawMessage(attrs))
		if err != nil {
			t.Fatal(err)
		}
		if out := f.Of([]*op.Tensor{x}); len(out) == 0 || out[0].Err() == nil {
			t.Errorf("%s %s: no error", name, attrs)
		}
	}
}

// TestDefaults: what a case leaves out means what PyTorch means by it.
func TestDefaults(t *testing.T) {
	d := cpu.NewDevice(cpu.Config{})
	defer d.Close()
	for _, test := range []struct {
		name, attrs string
		want        float64
	}{
		{"var", `{}`, 1}, {"var", `{"unbiased": false}`, 2.0 / 3}, {"var", `{"correction": 2}`, 2},
		{"norm", `{}`, math.Sqrt(14)}, {"norm", `{"p": "inf"}`, 3}, {"std", `{}`, 1}, {"median", `{}`, 2},
	} {
		x := d.NewSession().Tensor(array.FromSlice([]float64{1, 2, 3}, 3))
		f, err := New(test.name, json.RawMessage(test.attrs))
		if err != nil {
			t.Fatal(err)
		}
		got, err := cpu.Read(f.Of([]*op.Tensor{x})[0])
		if err != nil || math.Abs(got.At(0)-test.want) > 1e-12 {
			t.Errorf("%s %s: got %v, %v, want %v", test.name, test.attrs, got, err, test.want)
		}
	}
}
