package check

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
)

// TestRecordedModels repeats training runs that testdata/record_model.py recorded of transformers, one for
// each family or setting that has no other recording; gradients of larger tensors are left out of them.
func TestRecordedModels(t *testing.T) {
	dirs, err := filepath.Glob("testdata/models/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	strategies := map[string]*galley.Strategy{"one device": nil}
	if testing.Short() {
		dirs = dirs[:2] // the others differ in numbers
	} else {
		strategies["dp2 tp2"] = &galley.Strategy{DP: 2, TP: 2}
		strategies["pp2"] = &galley.Strategy{PP: 2, Micro: 2}
		strategies["zero 3"] = &galley.Strategy{DP: 2, Zero: 3}
		strategies["ep2"] = &galley.Strategy{DP: 2, EP: 2}
	}
	more, err := filepath.Glob("../../models/testdata/*/model.safetensors")
	if err != nil || len(more) == 0 {
		t.Fatalf("no further recordings: %v", err)
	}
	if testing.Short() {
		more = more[:2]
	}
	for _, path := range more { // .ci/run spreads these over devices
		dir := filepath.Dir(path)
		if ref, file, err := openReference(dir); err == nil && len(ref.Losses) > 0 {
			file.Close()
			t.Run(filepath.Base(dir), func(t *testing.T) { checkRecorded(t, dir, nil) })
		}
	}
	for _, dir := range dirs {
		config, err := models.ReadConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range strategies {
			if name == "ep2" && config.Experts == 0 {
				continue
			}
			t.Run(filepath.Base(dir)+" "+name, func(t *testing.T) { checkRecorded(t, dir, s) })
		}
	}
}

func checkRecorded(t *testing.T, dir string, s *galley.Strategy) {
	d := galley.CPU(galley.Config{})
	defer d.Close()
	var out strings.Builder
	r, err := Model(&out, dir, ModelConfig{Device: d, Strategy: s, DTypes: []array.DType{array.F64}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed() > 0 || r.Passed() < 40 {
		t.Errorf("%s", out.String())
	}
}

// TestLabelsOutOfRange: what a model cannot have as input or label is named with its place.
func TestLabelsOutOfRange(t *testing.T) {
	ids := func(x ...int32) array.Array { return array.FromSlice(x, 2, 1, 2) }
	good := ids(0, 3, 1, 2)
	for _, test := range []struct {
		inputs, labels array.Array
		task           models.Task
		want           string
	}{
		{good, ids(0, -100, 1, 3), models.Predict, ""},
		{ids(0, 1, 4, 2), good, models.Predict, "inputs: step 1, row 0, place 0: got 4, want 0 to 3"},
		{good, ids(0, 1, 2, 4), models.Predict,
			"labels: step 1, row 0, place 1: got 4, want 0 to 3, or -100 for none"},
		{good, ids(0, -7, 2, 0), models.Predict, "got -7, want 0 to 3, or -100 for none"},
		{good, ids(0, 1, 2, 0), models.ClassifyTokens, "got 2, want 0 to 1, or -100 for none"},
		{good, ids(0, 1, 9, 0), models.Answer, ""},
	} {
		err := batches{test.inputs, test.labels}.within(models.Config{Vocab: 4, Labels: 2, Task: test.task})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}
