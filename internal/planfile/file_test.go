package planfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/strategy"
)

func sample(t testing.TB) (*planfile.File, plan.Workload, *cluster.Cluster) {
	t.Helper()
	m, err := plan.ModelPreset("llama-3-8b")
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Parse("2x8 H100-SXM ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Workload{Model: m, Batch: 64, Seq: 4096}
	e, err := plan.NewEstimator(w, c, plan.Published())
	if err != nil {
		t.Fatal(err)
	}
	s := strategy.Strategy{DP: 4, TP: 2, PP: 2, MicroBatch: 2, Zero: 1, Sequence: true,
		Recompute: strategy.FullLayers(2), Layers: []int{17, 15}}
	x, err := e.Estimate(s)
	if err != nil {
		t.Fatal(err)
	}
	return planfile.New(w, c, s, x), w, c
}

func TestSaveLoad(t *testing.T) {
	f, w, c := sample(t)
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	g, err := planfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, g); d != "" {
		t.Error(d)
	}
	if err := g.For(w, c); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".galley-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A plan for something else is refused, with what differs.
func TestForeign(t *testing.T) {
	f, w, c := sample(t)
	more, err := cluster.Parse("4x8 H100-SXM ib=400G")
	if err != nil {
		t.Fatal(err)
	}
	other, err := plan.ModelPreset("llama-2-7b")
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"batch: the plan has 64, this is 128": f.For(with(w,
			func(w *plan.Workload) { w.Batch = 128 }), c),
		"model: the plan has llama-3-8b, this is llama-2-7b": f.For(with(w,
			func(w *plan.Workload) { w.Model = other }), c),
		"model's shape": f.For(with(w, func(w *plan.Workload) { w.Model.FFN++ }), c),
		"cluster: the plan has 2x8 H100-SXM-80GB ib=400G, this is 4x8": f.For(w, more),
		"sequence length: the plan has 4096, this is 8192: make a new one with": f.For(with(w,
			func(w *plan.Workload) { w.Seq = 8192 }), c),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f.Program = "abc"
	if err := f.ForProgram("def"); err == nil || f.ForProgram("abc") != nil {
		t.Errorf("program: %v", err)
	}
}

// Files of version 1 say micro for what is micro_batch now.
func TestVersion1(t *testing.T) {
	f, _, _ := sample(t)
	text, err := f.YAML()
	if err != nil {
		t.Fatal(err)
	}
	old := strings.NewReplacer("galley_plan: 2", "galley_plan: 1", "micro_batch: 2",
		"micro: 2").Replace(string(text))
	g, err := planfile.Parse([]byte(old))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, g); d != "" {
		t.Error(d)
	}
	mixed := strings.Replace(string(text), "galley_plan: 2", "galley_plan: 1", 1)
	if _, err := planfile.Parse([]byte(mixed)); err == nil ||
		!strings.Contains(err.Error(), "where micro is the size") {
		t.Errorf("micro_batch in version 1: %v", err)
	}
}

func with(w plan.Workload, change func(w *plan.Workload)) plan.Workload {
	change(&w)
	return w
}

// Mistakes in a file are named in one line, with their place where they have one.
func TestMistakes(t *testing.T) {
	f, _, _ := sample(t)
	good, err := f.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ old, replacement, want string }{
		{"galley_plan: 2", "galley_plan: 3", "got version 3, want 2"},
		{"batch: 64", "batch: 32", "it was edited after it was priced"},
		{"dp: 4", "dp: 8", "takes 32 devices, the cluster has 16"},
		{"dp: 4", "dq: 4", "line 19, column 3: unknown field \"dq\""},
		{"stages: [17, 15]", "stages: [17, 14]", "they have 31 layers, the model 32"},
		{"stages: [17, 15]", "stages: [32]", "stages: got 1, want 2"},
		{"cluster: 2x8 H100-SXM-80GB", "cluster: 2x8 H100-SMX", "near it are H100"},
		{"recompute: full:2", "recompute: half", "want none, selective, full"},
		{"dp: 4", "dp: [", "line 29, column 1"},
		{"predicted:", "mapping: [0, 0]\npredicted:", "mapping: got 2 ranks, want 16"},
	} {
		text := strings.Replace(string(good), x.old, x.replacement, 1)
		if text == string(good) {
			t.Fatalf("%q is not in the file:\n%s", x.old, good)
		}
		_, err := planfile.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", x.replacement, err, x.want)
		}
	}
	if _, err := planfile.Load("nowhere.yaml"); err == nil || !os.IsNotExist(unwrap(err)) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func unwrap(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return err
}

func FuzzParse(f *testing.F) {
	x, _, _ := sample(f)
	good, err := x.YAML()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("galley_plan: 1\nstages: [1")
	f.Add("mapping: [1, -1]")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := planfile.Parse([]byte(text))
		if err != nil {
			return
		}
		again, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := planfile.Parse(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}

func sampleProgram() *planfile.Program {
	return &planfile.Program{Version: planfile.ProgramVersion, Program: "0123", Machine: "4 in-process devices",
		Strategy: strategy.Strategy{DP: 2, TP: 2, PP: 1, Micro: 2},
		Weights:  map[string]string{"up.weight": "@[tp,_]"},
		Inputs:   []string{"@[_,_]", "@[_]"}, Seconds: 1e-3, Bound: 5e-4, Bytes: 1 << 20}
}

// A program's plan comes back as it was; mistakes are named.
func TestProgram(t *testing.T) {
	p := sampleProgram()
	text, err := p.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := planfile.ParseProgram(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, again); d != "" {
		t.Error(d)
	}
	for _, x := range []struct{ old, replacement, want string }{
		{"galley_program_plan: 1", "galley_program_plan: 2", "got version 2, want 1"},
		{"@[tp,_]", "@[tp,", "up.weight"},
		{"dp: 2", "dp: -2", "dp is -2"},
		{"program: \"0123\"", "program: \"\"", "hash of the program"},
	} {
		bad := strings.Replace(string(text), x.old, x.replacement, 1)
		if bad == string(text) {
			t.Fatalf("%q is not in the file:\n%s", x.old, text)
		}
		if _, err := planfile.ParseProgram([]byte(bad)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q", x.replacement, err, x.want)
		}
	}
}

func FuzzParseProgram(f *testing.F) {
	good, err := sampleProgram().YAML()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("galley_program_plan: 1\nweights: {a: 1}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := planfile.ParseProgram([]byte(text))
		if err != nil {
			return
		}
		again, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := planfile.ParseProgram(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
	})
}
