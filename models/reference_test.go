package models

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func newSession(t testing.TB) *cpu.Session {
	d := cpu.NewDevice(cpu.Config{})
	t.Cleanup(d.Close)
	return d.NewSession()
}

func read(t testing.TB, x *op.Tensor) array.Array {
	t.Helper()
	a, err := cpu.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// references lists the directories of recorded results: our own and, beside the module, PyTorch's.
func references(t *testing.T) []string {
	var dirs []string
	for _, pattern := range []string{"testdata/*/reference.json", "../../shared/fixtures/*/reference.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// skipUnknown skips a directory of a family that cannot be built.
func skipUnknown(t *testing.T, dir string) {
	if _, err := ReadConfig(dir); err != nil && strings.Contains(err.Error(), "model_type") {
		t.Skip(err)
	}
}

// reference is recorded results of a model.
type reference struct {
	Loss0     float64            `json:"loss0"`
	GradNorms map[string]float64 `json:"grad_norms"`
	file      *safetensors.File
}

func openReference(t *testing.T, dir string) *reference {
	text, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	r.file, err = safetensors.Open(filepath.Join(dir, "reference.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.file.Close() })
	return r
}

func (r *reference) read(t *testing.T, name string) array.Array {
	a, err := r.file.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// batch returns the inputs and labels of a step: those recorded, or tokens and the tokens after them.
func (r *reference) batch(t *testing.T, step int) (ids, labels array.Array) {
	if _, _, ok := r.file.Type("inputs"); ok {
		ids, labels = r.read(t, "inputs"), r.read(t, "labels")
		return ids.Rows(step, step+1).Reshape(ids.Shape()[1:]...), labels.Rows(step,
			step+1).Reshape(labels.Shape()[1:]...)
	}
	all := r.read(t, "ids").Rows(step, step+1)
	batch, seq := all.Shape()[1], all.Shape()[2]-1
	ids, labels = array.New(array.I32, batch, seq), array.New(array.I32, batch, seq)
	for b := range batch {
		row := array.Data[int32](all)[b*(seq+1):]
		copy(array.Data[int32](ids)[b*seq:], row[:seq])
		copy(array.Data[int32](labels)[b*seq:], row[1:seq+1])
	}
	return ids, labels
}

// tolerance is the largest difference allowed between two programs in float32.
const tolerance = 5e-6

func closeTo(t *testing.T, what string, got, want array.Array) {
	t.Helper()
	if !got.Shape().Equal(want.Shape()) {
		t.Errorf("%s: got shape %v, want %v", what, got.Shape(), want.Shape())
		return
	}
	worst := 0.0
	for i := range want.Len() {
		if d := math.Abs(got.At(i) - want.At(i)); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= tolerance) {
		t.Errorf("%s: differs by %v, want at most %v", what, worst, tolerance)
	}
}

func TestReferences(t *testing.T) {
	dirs := references(t)
	if len(dirs) == 0 {
		t.Skip("no recorded results")
	}
	for _, dir := range dirs {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(dir, "../../"), "/", "_"),
			func(t *testing.T) { testReference(t, dir) })
	}
}

func testReference(t *testing.T, dir string) {
	skipUnknown(t, dir)
	r := openReference(t, dir)
	s := newSession(t)
	m, err := Load(dir, nn.Config{Scope: s})
	if err != nil {
		t.Fatal(err)
	}
	ids, labels := r.batch(t, 0)
	closeTo(t, "logits", read(t, m.Forward(s.Tensor(ids))), r.read(t, "logits0"))

	loss := m.Loss(s.Tensor(ids), s.Tensor(labels))
	if got := read(t, loss).At(0); math.Abs(got-r.Loss0) > tolerance {
		t.Errorf("loss: got %v, want %v", got, r.Loss0)
	}
	params := trained(m)
	if len(params) != len(r.GradNorms) {
		t.Errorf("got %d parameters, want %d", len(params), len(r.GradNorms))
	}
	grads := op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(params))
	for i, p := range params {
		checkGrad(t, r, p.Name, read(t, grads[i]))
	}
}

// trained returns the parameters that training changes.
func trained(m Model) (list []*nn.Param) {
	for _, p := range m.Params() {
		if !p.Fixed {
			list = append(list, p)
		}
	}
	return list
}

func checkGrad(t *testing.T, r *reference, name string, got array.Array) {
	want, ok := r.GradNorms[name]
	if !ok {
		t.Errorf("parameter %q: no gradient is recorded", name)
		return
	}
	sum := 0.0
	for _, x := range got.Float64s() {
		sum += x * x
	}
	if norm := math.Sqrt(sum); math.Abs(norm-want) > tolerance*(1+want) {
		t.Errorf("gradient of %q: norm %v, want %v", name, norm, want)
	}
	if _, _, ok := r.file.Type("grad0." + name); ok {
		closeTo(t, "gradient of "+name, got, r.read(t, "grad0."+name))
	}
}
