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
	if !testing.Short() {
		strategies["dp2 tp2"] = &galley.Strategy{DP: 2, TP: 2}
		strategies["pp2"] = &galley.Strategy{PP: 2, Micro: 2}
		strategies["zero 3"] = &galley.Strategy{DP: 2, Zero: 3}
		strategies["ep2"] = &galley.Strategy{DP: 2, EP: 2}
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
