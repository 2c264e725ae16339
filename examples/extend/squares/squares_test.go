package squares

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// losses trains with a strategy and says how many squares the pass has found.
func losses(t *testing.T, s *galley.Strategy) (list []float64, squares int64) {
	t.Helper()
	before := found.Load()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	up, down := nn.NewLinear(in.At("up"), 4, 8), nn.NewLinear(in.At("down"), 8, 2)
	tr, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: in.Params(), Schedule: optim.Constant{LR: 0.01}, Strategy: s,
		Loss: func(batch []*galley.Tensor) *galley.Tensor {
			h := up.Forward(batch[0])
			return op.MSELoss(down.Forward(op.Mul(h, h)), batch[1], "mean")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	x, y := array.New(array.F64, 8, 4), array.New(array.F64, 8, 2)
	for i := range x.Len() {
		array.Data[float64](x)[i] = math.Sin(float64(i))
	}
	for range 4 {
		m, err := tr.Step(x, y)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m.Loss)
	}
	return list, found.Load() - before
}

// TestTrains: the pass runs where nothing is said, and where it is named; the losses are the same without it.
func TestTrains(t *testing.T) {
	want, n := losses(t, nil)
	if n == 0 {
		t.Error("on one device it finds nothing")
	}
	for _, c := range []struct {
		names string
		runs  bool
	}{{"", true}, {"-squares", false}, {"none", false}, {"-loops", true},
		{"fold,squares,gemm_epilogue,loops", true}} {
		names, err := strategy.ParsePasses(c.names)
		if err != nil {
			t.Fatal(err)
		}
		got, n := losses(t, &galley.Strategy{DP: 2, FusedPasses: names})
		if (n > 0) != c.runs {
			t.Errorf("fused_passes=%s: it finds %d squares", c.names, n)
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-12 {
				t.Errorf("fused_passes=%s: step %d: loss %.15g, one device %.15g", c.names, i, got[i], want[i])
			}
		}
	}
}

func TestListed(t *testing.T) {
	var names []string
	for _, p := range strategy.Passes() {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); !strings.Contains(got, "merge squares prune") {
		t.Errorf("got %s, want squares behind merge", got)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, after, want string }{
		{"squares", "merge", "there is a pass of that name"},
		{"cubes", "merged", "did you mean merge?"},
		{"a-b", "merge", "want a name"},
	} {
		err := strategy.RegisterPass(strategy.Pass{Name: c.name}, c.after, rewrite)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s after %s: got %v, want %q", c.name, c.after, err, c.want)
		}
	}
	if _, err := strategy.ParsePasses("square"); err == nil ||
		!strings.Contains(err.Error(), "did you mean squares?") {
		t.Errorf("a wrong name: got %v", err)
	}
	if _, err := strategy.ParsePasses("fold,-loops"); err == nil {
		t.Error("names with and without a - are taken")
	}
}
