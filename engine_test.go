package galley_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/fit"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func newEngine(t *testing.T, s *galley.Strategy, calls ...fit.Callback) *galley.Engine {
	t.Helper()
	perplexity := galley.Metric{Name: "perplexity", Finish: math.Exp,
		Compute: func(outputs, labels []*galley.Tensor) (sum, count *galley.Tensor) {
			ones := op.Cast(op.GreaterEqual(labels[0], op.ZerosLike(labels[0])), outputs[0].DType())
			return op.Mul(galley.CrossEntropy(outputs, labels), op.Sum(ones)), op.Sum(ones)
		}}
	e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(smallModel(t, device(t))),
		Loss: galley.CrossEntropy, Optimizer: optim.AdamW{WeightDecay: 0.1},
		Schedule: optim.Constant{LR: 1e-2}, ClipNorm: 1, Metrics: []galley.Metric{galley.Accuracy(),
			perplexity}, Strategy: s, Callbacks: calls})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

var engineStrategies = []*galley.Strategy{nil, {DP: 2, TP: 2, PP: 2, Micro: 4}, {DP: 3, Micro: 2, Zero: 3},
	{CP: 2}, {PP: 2, Schedule: "zbv", Micro: 4, Recompute: "full"}}

func TestEngineFit(t *testing.T) {
	wantLosses, wantEval, wantLogits := plain(t)
	var want galley.Evaluation
	for _, s := range engineStrategies {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			e := newEngine(t, s)
			h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: apiSteps})
			if err != nil {
				t.Fatal(err)
			}
			near(t, "losses", h.Losses(), wantLosses)
			r, err := e.Run(t.Context(), galley.Evaluating, batchOf(t, windows(t), 9)...)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "evaluation", []float64{r.Loss}, []float64{wantEval})
			got, err := e.Evaluate(t.Context(), windows(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			if want.Values == nil {
				want = got
			}
			near(t, "metrics", values(got), values(want))
			if a, err := got.Value("accuracy"); err != nil || a <= 0 || a >= 1 ||
				math.Abs(got.Values[1].Value-math.Exp(got.Loss)) > 1e-9 {
				t.Errorf("evaluation is %+v, %v", got, err)
			}
			for out, err := range e.Predict(t.Context(), offset{windows(t), 9}, 1) {
				if err != nil {
					t.Fatal(err)
				}
				near(t, "logits", out[0].Float64s(), wantLogits.Float64s())
			}
		})
	}
}

// TestEngineOnBackend runs everything behind the interface of chips, and continues there from a checkpoint of
// the host.
func TestEngineOnBackend(t *testing.T) {
	wantLosses, wantEval, wantLogits := plain(t)
	dir := t.TempDir()
	if _, err := newEngine(t, nil).Fit(t.Context(), windows(t),
		galley.FitConfig{Steps: 1, SaveDir: dir}); err != nil {
		t.Fatal(err)
	}
	d := device(t)
	c := galley.EngineConfig{Model: galley.Language(smallModel(t, d)), Optimizer: adamW(), Backend: d.Backend(),
		Metrics: []galley.Metric{galley.Accuracy()}}
	e, err := galley.NewEngine(c)
	if err != nil {
		t.Fatal(err)
	}
	h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: apiSteps, SaveDir: dir, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "losses", h.Losses(), wantLosses[1:])
	batch := batchOf(t, windows(t), 9)
	r, err := e.Run(t.Context(), galley.Evaluating, batch...)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "evaluation", []float64{r.Loss}, []float64{wantEval})
	if r, err = e.Run(t.Context(), galley.Predicting, batch[0]); err != nil {
		t.Fatal(err)
	}
	near(t, "logits", r.Outputs[0].Float64s(), wantLogits.Float64s())
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	two := newEngine(t, &galley.Strategy{DP: 2})
	if r, err := two.Load(dir); err != nil || r.Step != apiSteps {
		t.Fatalf("loaded %+v, %v", r, err)
	}
	if r, err = two.Run(t.Context(), galley.Evaluating, batch...); err != nil {
		t.Fatal(err)
	}
	near(t, "evaluation of the checkpoint", []float64{r.Loss}, []float64{wantEval})
	c.Strategy = &galley.Strategy{DP: 2}
	if _, err := galley.NewEngine(c); err == nil || !strings.Contains(err.Error(), "takes 2 devices") {
		t.Errorf("got %v", err)
	}
}

// TestEagerEngine runs op by op on one device: the numbers are the same.
func TestEagerEngine(t *testing.T) {
	var want []float64
	for _, mode := range []galley.Mode{galley.Static, galley.Eager} {
		e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(smallModel(t, device(t))), Mode: mode,
			Optimizer: adamW(), Metrics: []galley.Metric{galley.Accuracy()}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 2, Valid: windows(t), ValidBatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Run(t.Context(), galley.Predicting, batchOf(t, windows(t), 0)[0])
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Concat(h.Losses(), values(h.Evaluations[0]), r.Outputs[0].Float64s())
		if want == nil {
			want = got
		}
		near(t, mode.String(), got, want)
	}
}

func values(e galley.Evaluation) []float64 {
	list := []float64{e.Loss}
	for _, v := range e.Values {
		list = append(list, v.Value)
	}
	return list
}

// offset is a loader that begins later.
type offset struct {
	galley.Loader
	first int
}

func (o offset) Batch(i int) ([]array.Array, error) { return o.Loader.Batch(o.first + i) }

// recorder notes what it is told.
type recorder struct {
	fit.CallbackBase
	told []string
}

func (r *recorder) note(what string, p *fit.Progress) error {
	r.told = append(r.told, fmt.Sprintf("%s%d", what, p.Step))
	return nil
}

func (r *recorder) OnBegin(p *fit.Progress) error      { return r.note("begin", p) }
func (r *recorder) OnEpochBegin(p *fit.Progress) error { return r.note("epoch", p) }
func (r *recorder) OnStep(p *fit.Progress) error       { return r.note("step", p) }
func (r *recorder) OnEvaluate(p *fit.Progress) error   { return r.note("evaluate", p) }
func (r *recorder) OnSave(p *fit.Progress) error       { return r.note("save", p) }
func (r *recorder) OnEpochEnd(p *fit.Progress) error   { return r.note("end-epoch", p) }
func (r *recorder) OnEnd(p *fit.Progress) error        { return r.note("end", p) }

func TestCallbacks(t *testing.T) {
	r := &recorder{}
	var log bytes.Buffer
	e := newEngine(t, nil, r)
	dir := t.TempDir()
	h, err := e.Fit(t.Context(), short{windows(t), 2}, galley.FitConfig{
		Epochs: 2, Valid: windows(t), ValidBatches: 1, SaveDir: dir, SaveEvery: 3, Log: &log, LogEvery: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "begin0 epoch0 step1 step2 save2 evaluate2 end-epoch2 epoch2 step3 save3 step4 evaluate4 " +
		"end-epoch4 save4 end4"
	if got := strings.Join(r.told, " "); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
	if len(h.Steps) != 4 || len(h.Evaluations) != 2 || h.Evaluations[1].Step != 4 {
		t.Errorf("history is %+v", h)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 8 || !strings.HasPrefix(lines[0], "step 1/4  epoch 1/2  loss ") ||
		!strings.Contains(lines[3], "evaluation  loss") || !strings.Contains(lines[3], "accuracy") {
		t.Errorf("log is\n%s", log.String())
	}
	if want := "step 3/4  saved to " + dir; !slices.Contains(lines, want) {
		t.Errorf("log is\n%swant %q in it", log.String(), want)
	}
	// A second fit continues.
	if h, err = e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 1}); err != nil || h.Steps[0].Step != 4 {
		t.Errorf("second fit: %+v, %v", h, err)
	}
}

// short is a loader of fewer batches.
type short struct {
	galley.Loader
	n int
}

func (s short) Len() int { return s.n }

func TestEarlyStop(t *testing.T) {
	e := newEngine(t, nil)
	h, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 20, Valid: windows(t), ValidEvery: 1,
		ValidBatches: 1, Callbacks: []fit.Callback{&fit.EarlyStop{Patience: 1, MinDelta: 100}}})
	if err != nil || len(h.Steps) != 3 {
		t.Errorf("took %d steps, %v: want 3: one that is best and two that are not better", len(h.Steps), err)
	}
	_, err = e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 1, Valid: windows(t),
		Callbacks: []fit.Callback{&fit.EarlyStop{Metric: "bleu"}}})
	if err == nil || !strings.Contains(err.Error(), `no metric "bleu": want one of [loss accuracy perplexity]`) {
		t.Errorf("got %v", err)
	}
}

// canceller cancels a fit after a step.
type canceller struct {
	fit.CallbackBase
	after  int
	cancel context.CancelFunc
}

func (c *canceller) OnStep(p *fit.Progress) error {
	if p.Step == c.after {
		c.cancel()
	}
	return nil
}

// TestResume cancels a fit and goes on under other strategies: together the losses are those of a fit that
// was left alone.
func TestResume(t *testing.T) {
	h, err := newEngine(t, nil).Fit(t.Context(), windows(t), galley.FitConfig{Steps: 6})
	if err != nil {
		t.Fatal(err)
	}
	want, dir := h.Losses(), filepath.Join(t.TempDir(), "new")
	var got []float64
	for i, s := range []*galley.Strategy{nil, {DP: 2, PP: 2, Zero: 1}, {TP: 2}} {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEngine(t, s)
		h, err := e.Fit(ctx, windows(t), galley.FitConfig{Steps: 6, SaveDir: dir, Resume: true,
			Callbacks: []fit.Callback{&canceller{after: 2 * (i + 1), cancel: cancel}}})
		if i < 2 && !errors.Is(err, context.Canceled) || i == 2 && err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		got = append(got, h.Losses()...)
		cancel()
	}
	near(t, "losses", got, want)
	// Load and evaluate under yet another strategy, without a step.
	var losses []float64
	for _, s := range []*galley.Strategy{nil, {DP: 2, PP: 2, Micro: 4}} {
		e := newEngine(t, s)
		r, err := e.Load(dir)
		if err != nil || r.Step != 6 || r.Sample != 48 {
			t.Fatalf("loaded %+v, %v", r, err)
		}
		v, err := e.Evaluate(t.Context(), windows(t), 2)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, v.Loss)
	}
	near(t, "evaluation", losses[1:], losses[:1])
	if slices.Contains(want, losses[0]) {
		t.Error("a checkpoint loaded nothing")
	}
}

func TestEngineSave(t *testing.T) {
	dir := t.TempDir()
	e := newEngine(t, &galley.Strategy{DP: 2})
	if _, err := e.Fit(t.Context(), windows(t), galley.FitConfig{Steps: 1}); err != nil {
		t.Fatal(err)
	}
	if err := e.Save(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	want, err := e.Params()
	if err != nil {
		t.Fatal(err)
	}
	two := newEngine(t, nil)
	if _, err := two.Load(dir); err != nil {
		t.Fatal(err)
	}
	got, err := two.Params()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		x, y := read(t, want[i].Value), read(t, got[i].Value)
		near(t, want[i].Name, y.Float64s(), x.Float64s())
	}
}

func read(t *testing.T, x *galley.Tensor) array.Array {
	t.Helper()
	a, err := galley.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPrepare(t *testing.T) {
	d := device(t)
	m := smallModel(t, d)
	e, err := galley.NewEngine(galley.EngineConfig{Model: galley.Language(m),
		Strategy: &galley.Strategy{DP: 2, TP: 2, PP: 2}, Estimate: func(c *galley.Cost) time.Duration {
			took, err := galley.Price(galley.AutoConfig{Model: m.Config(), Batch: 8, Seq: 12}, c.Strategy)
			if err != nil {
				t.Error(err)
			}
			return took
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	types := typesOf(batchOf(t, windows(t), 0))
	c, err := e.Prepare(galley.Training, types...)
	if err != nil {
		t.Fatal(err)
	}
	if e.Trainer().Steps() != 0 || len(c.Devices) != 8 || c.Memory() == 0 || c.Time <= 0 || c.Flops() == 0 ||
		c.Sent() == 0 {
		t.Errorf("cost is %+v", c)
	}
	var out bytes.Buffer
	if err := c.Write(&out); err != nil || !strings.Contains(out.String(), "0-3") ||
		!strings.Contains(out.String(), "4-7") {
		t.Errorf("%v\n%s", err, out.String())
	}
	// A forward pass keeps nothing: it needs less, and about a third of the work.
	f, err := e.Prepare(galley.Evaluating, types...)
	if err != nil {
		t.Fatal(err)
	}
	if share := f.Flops() / c.Flops(); f.Memory() >= c.Memory() ||
		f.Devices[0].Weights != c.Devices[0].Weights || share < 0.28 || share > 0.38 || f.Devices[0].Messages != 2 {
		t.Errorf("a forward pass costs %+v, a step %+v", f, c)
	}
	if f, err = e.Prepare(galley.Predicting, types[0]); err != nil || len(f.Devices) != 8 {
		t.Errorf("predicting costs %+v, %v", f, err)
	}
	if _, err := galley.Price(galley.AutoConfig{Model: m.Config(), Batch: 8, Seq: 12},
		galley.Strategy{DP: 3}); err == nil || !strings.Contains(err.Error(), "want a multiple of 3") {
		t.Errorf("got %v", err)
	}
	if _, err := e.Prepare(7); err == nil || !strings.Contains(err.Error(), "phase 7: want Training") {
		t.Errorf("got %v", err)
	}
}

func TestEngineRefuses(t *testing.T) {
	if _, err := galley.NewEngine(galley.EngineConfig{}); err == nil ||
		!strings.Contains(err.Error(), "engine: model has no parameters") {
		t.Errorf("got %v", err)
	}
	if _, err := galley.NewEngine(galley.EngineConfig{Model: net(device(t).NewSession())}); err == nil ||
		!strings.Contains(err.Error(), "want a loss") {
		t.Errorf("got %v", err)
	}
	e := newEngine(t, &galley.Strategy{Micro: 4})
	for want, c := range map[string]galley.FitConfig{
		"leave one of them out": {Steps: 1,
			Epochs: 1}, "need SaveDir": {Resume: true}, "Keep is -1: want 0 or more": {Keep: -1},
	} {
		if _, err := e.Fit(t.Context(), windows(t), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := e.Fit(t.Context(), nil, galley.FitConfig{}); err == nil ||
		!strings.Contains(err.Error(), "data.NewLoader") {
		t.Errorf("got %v", err)
	}
	ds, err := data.Rows(array.New(array.I32, 6, 4), array.New(array.I32, 6, 4))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.DataLoader(ds, data.LoaderConfig{Batch: 3}); err == nil ||
		!strings.Contains(err.Error(), "want micro=3 or a batch of 4") {
		t.Errorf("got %v", err)
	}
	if _, err := e.DataLoader(ds, data.LoaderConfig{Batch: 6}); err != nil {
		t.Error(err)
	}
}
